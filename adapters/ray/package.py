"""Our package `gridweave_agent` as one zip: nodes have nothing of ours installed, so Ray carries it to them.

The same sources give the same bytes, and so the same digest: it tells an agent of another version.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import zipfile
from pathlib import Path

from attrs import frozen

from ports.errors import Unavailable

NAME = "gridweave_agent"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the zip format's first date


@frozen
class AgentPackage:
    """data: the zip. digest: sha256 of it, hex."""

    data: bytes
    digest: str


def agent_package() -> AgentPackage:
    """The installed `gridweave_agent`. Raises Unavailable if it is not installed here."""
    spec = importlib.util.find_spec(NAME)
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("agent package", f"{NAME} is not installed beside the server")
    return zipped(Path(next(iter(spec.submodule_search_locations))))


def zipped(folder: Path) -> AgentPackage:
    """Every file of a package's folder but caches, in a fixed order and with a fixed date."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.writestr(zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}", _EPOCH), path.read_bytes())
    data = buffer.getvalue()
    return AgentPackage(data, hashlib.sha256(data).hexdigest())
