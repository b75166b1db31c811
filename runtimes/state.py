"""The state folder of the embedded default: one secret, made once, readable by its owner alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def state_folder(path: Path) -> Path:
    """The folder, made if there is none, closed to other users of the machine."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path.absolute()


def house_secret(folder: Path) -> bytes:
    """Of which grants and agents' tokens are derived. The same for every process on one state folder."""
    file = folder / "secret"
    try:
        handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _read(file)
    with os.fdopen(handle, "wb") as out:
        out.write(secrets.token_hex(32).encode())
    return _read(file)


def _read(file: Path) -> bytes:
    """Whole: a process that came between creation and writing looks again."""
    for _ in range(1000):
        found = file.read_bytes()
        if len(found) == 64:
            return found
    raise ValueError(f"{file} is no secret of ours: remove it, and stop what runs on this state folder first")
