"""Ids and secrets from the operating system."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


class SystemRandomness:
    """`ports.randomness.Randomness`."""

    def token(self) -> str:
        return secrets.token_hex(16)


def lasting_secret(path: Path) -> bytes:
    """32 random bytes kept in a file that only its owner can read; the first of all callers makes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        handle, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
        try:
            os.write(handle, secrets.token_bytes(32))
            os.fsync(handle)
            with contextlib.suppress(FileExistsError):
                os.link(made, path)
        finally:
            os.close(handle)
            os.unlink(made)
    return path.read_bytes()
