"""Models of the gateway: a folder of weights under a name.

Files go in parts of 64 MiB that are known by their content: what is there already is not sent, so a push that broke off
goes on where it was, and a new version sends what has changed. The model is the new one from the last request on.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gridweave.answers import facts_of
from gridweave.errors import Refused
from gridweave.files import pieces
from gridweave.transport import Transport

PART = 64 * 1024 * 1024  # bytes; one of them is in memory
Pushing = Callable[[str, int, int, int], None]  # path; bytes seen so far, bytes in all, bytes that had to be sent


def push(transport: Transport, folder: Path, name: str, progress: Pushing | None = None, skip_broken_links: bool = False) -> dict[str, Any]:
    """Make the files below that folder the model of that name; gives what the gateway says of it. Links are followed to files.

    skip_broken_links: leave behind the links that lead nowhere. Raises Refused (no folder, no file, a link that leads nowhere, a
    name that is another's), Unavailable.
    """
    files = sorted(_files(folder, skip_broken_links))
    if not files:
        raise Refused(f"There are no files in {folder}", field="folder", value=str(folder), remedy="Give the folder of the weights.")
    total, seen, sent, told = sum(size for _, _, size in files), 0, 0, []
    for path, file, _ in files:
        digest, parts, size = hashlib.sha256(), [], 0
        for part in _parts(file):
            reference = {"sha256": hashlib.sha256(part).hexdigest(), "size": len(part)}
            sent += len(part) if _send(transport, name, reference, part) else 0
            digest.update(part)
            parts.append(reference)
            size, seen = size + len(part), seen + len(part)
            if progress is not None:
                progress(path, seen, total, sent)
        told.append({"path": path, "size": size, "sha256": digest.hexdigest(), "parts": parts})
    return facts_of(transport.send("PUT", _model(name), body={"files": told}, read_timeout=300))


def listed(transport: Transport) -> list[dict[str, Any]]:
    """The caller's models, by name."""
    found: list[dict[str, Any]] = facts_of(transport.send("GET", "/v1/models"))["models"]
    return found


def remove(transport: Transport, name: str) -> None:
    """Raises NotFound."""
    transport.send("DELETE", _model(name))


def _send(transport: Transport, name: str, reference: dict[str, Any], part: bytes) -> bool:
    """Whether it had to be sent."""
    grant = facts_of(transport.send("POST", f"{_model(name)}/parts", body=reference))
    if grant.get("present"):
        return False
    headers = {**grant.get("headers", {}), "Content-Length": str(len(part)), "Content-Type": "application/octet-stream"}
    transport.send(grant.get("method", "PUT"), grant["url"], content=lambda: [part], headers=headers, read_timeout=300)
    return True


def _files(folder: Path, skip_broken_links: bool) -> Iterator[tuple[str, Path, int]]:
    """Of each file: its path below the folder, with slashes; where it is; its size."""
    if not folder.is_dir():
        raise Refused(f"{folder} is no folder", field="folder", value=str(folder), remedy="Give the folder of the weights.")
    for above, _, names in os.walk(folder, followlinks=False):
        for name in names:
            file = Path(above, name)
            if file.is_file():
                yield file.relative_to(folder).as_posix(), file, file.stat().st_size
            elif file.is_symlink() and not file.exists() and not skip_broken_links:
                raise _broken(file)


def _broken(link: Path) -> Refused:
    """A cache of weights that was copied without what its links lead to looks whole, and would be half a model."""
    remedy = "Bring the file there, remove the link, or leave such links behind: --skip-broken-links (skip_broken_links=True)."
    return Refused(f"{link} is a link that leads nowhere: to {os.readlink(link)}", field="folder", value=str(link), remedy=remedy)


def _parts(file: Path) -> Iterator[bytes]:
    try:
        yield from pieces(file, PART)
    except OSError as error:
        words = f"{file} cannot be read: {error.strerror}"
        raise Refused(words, field="folder", value=str(file), remedy="Make it readable, or move it out of the folder.") from error


def _model(name: str) -> str:
    return f"/v1/models/{quote(name, safe='')}"
