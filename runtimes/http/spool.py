"""A body that arrives slowly waits on the gateway's own disk until it is whole, in a file that has no name.

Whatever becomes of the request, or of the process, nothing of it stays: the file goes with its last handle. A small body
never comes here, so that no file is made for it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ports.errors import Unavailable

READ = 256 * 1024


class Spool:
    """Written to by one thread at a time, then read once. folder: None for the system's own."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._handle: int | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """Raises Unavailable if the disk does not take it."""
        try:
            if self._handle is None:
                self._handle = _nameless(self._folder)
            view = memoryview(data)
            while view:
                view = view[os.write(self._handle, view) :]
        except OSError as error:
            raise Unavailable("the gateway's disk", error.strerror or "") from error
        self._size += len(data)

    def blocks(self, last: bytes) -> Iterator[bytes]:
        """What was written, and then `last`. Raises Unavailable."""
        if self._handle is not None:
            for at in range(0, self._size, READ):
                yield self._read(self._handle, at)
        if last:
            yield last

    def _read(self, handle: int, at: int) -> bytes:
        wanted = min(READ, self._size - at)
        try:
            data = os.pread(handle, wanted, at)
        except OSError as error:
            raise Unavailable("the gateway's disk", error.strerror or "") from error
        if len(data) != wanted:
            raise Unavailable("the gateway's disk", "a file became shorter while it was read")
        return data

    def __del__(self) -> None:
        """When nobody works with it any more: a thread may still be writing when its request is given up."""
        if self._handle is not None:
            os.close(self._handle)


def _nameless(folder: Path | None) -> int:
    with tempfile.TemporaryFile(buffering=0, dir=folder) as file:
        return os.dup(file.fileno())
