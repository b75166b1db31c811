"""The state folder of the embedded default: one secret, made once, readable by its owner alone."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path

from ports.errors import Invalid


def state_folder(path: Path) -> Path:
    """The folder, made if there is none, closed to other users of the machine. Raises Invalid if it can't be made."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        words = f"STATE_DIR {str(path)!r} can't be made: {error.strerror}."
        raise Invalid(words, "STATE_DIR", "Give a folder that may be made or written.", str(path)) from error
    return path.absolute()


def house_secret(folder: Path) -> bytes:
    """Of which grants and agents' tokens are derived. The same for every process on one state folder."""
    file = folder / "secret"
    if not file.exists():
        handle, made = tempfile.mkstemp(dir=folder, prefix=".secret.")  # mode 0600
        with os.fdopen(handle, "wb") as out:
            out.write(secrets.token_hex(32).encode())
        with suppress(FileExistsError):  # another process was faster
            os.link(made, file)  # whole or not at all, whenever we are killed
        os.unlink(made)
    found = file.read_bytes()
    if len(found) != 64:
        raise ValueError(f"{file} is no secret of ours: remove it, and stop what runs on this state folder first")
    return found
