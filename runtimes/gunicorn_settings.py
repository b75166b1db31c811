"""What every server of ours tells gunicorn, whatever its workers are: its socket, quiet logs, and to believe no header of a proxy."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from gunicorn.config import Config  # type: ignore[import-untyped]


def configure(config: Config, listener: socket.socket, own: Mapping[str, Any]) -> None:
    """own: what this kind of server adds. A setting that this release of gunicorn does not know is left out."""
    common: dict[str, Any] = {
        "bind": [f"fd://{listener.fileno()}"],
        "loglevel": "warning",
        "forwarded_allow_ips": "",
        "header_map": "drop",
        "control_socket_disable": True,
    }
    for name, value in {**common, **own}.items():
        if name in config.settings:
            config.set(name, value)
