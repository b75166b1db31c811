"""`version`: of this client and of the gateway."""

from __future__ import annotations

import platform
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from gridweave.commands.options import COMMON, Common
from gridweave.errors import Unavailable
from gridweave.version import __version__


def version(*, common: Common = COMMON) -> int:
    """Show the versions of client and server. Exit code 3 if the gateway does not answer."""
    output, client = common.output(), common.client(retry_for=2)
    own = {"client": __version__, "python": platform.python_version(), "cloudpickle": str(cloudpickle.__version__)}
    server: dict[str, Any] | None = None
    missing: Unavailable | None = None
    try:
        server = client.server_version()
    except Unavailable as error:
        missing = error
    if output.json:
        output.emit({"client": own, "url": client.url, "server": server})
    else:
        shown = {f"server {key}".replace("server server", "server"): str(value) for key, value in (server or {}).items() if value}
        output.fields({**own, "gateway": client.url, **shown})
    if missing is None:
        return 0
    if not output.json:
        output.error(missing)
    return 3
