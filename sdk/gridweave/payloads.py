"""Bytes on their way to the cluster, known by their digest.

A payload is written once, into memory while it is small and into a temporary file beyond that, and counted and hashed on
the way; past the limit writing stops at once. It can be read again and again: an upload may have to be repeated.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from gridweave.errors import Refused

INLINE = 64 * 1024  # bytes; what is not larger goes inside the request itself
Progress = Callable[[int, int], None]  # bytes so far, and in all
LIMIT = 512 * 1024 * 1024  # bytes; what is larger is refused
_IN_MEMORY = 4 * 1024 * 1024
_CHUNK = 1024 * 1024


class TooLargeError(Exception):
    """More than the limit was written."""


class Payload:
    """Bytes with their sha256 (hex) and size. Close it when it is no longer needed."""

    def __init__(self) -> None:
        self.size = 0
        self._hash = hashlib.sha256()
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self._reading = threading.Lock()

    def write(self, data: Any) -> int:
        """Append bytes. Raises TooLargeError beyond LIMIT."""
        count = memoryview(data).nbytes
        self.size += count
        if self.size > LIMIT:
            raise TooLargeError
        self._hash.update(data)
        self._file.write(data)
        return count

    def flush(self) -> None:
        """For writers that want to: nothing is held back."""

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    @property
    def reference(self) -> dict[str, Any]:
        """How a request names an uploaded payload."""
        return {"sha256": self.sha256, "size": self.size}

    def inline(self) -> dict[str, Any]:
        """How a request carries a small one itself."""
        return {"inline": base64.b64encode(b"".join(self.chunks())).decode("ascii")}

    def chunks(self, progress: Progress | None = None) -> Iterator[bytes]:
        """The bytes from the start, a piece at a time. progress: told at the start, and whenever a piece was taken."""
        position = 0
        while True:
            if progress is not None:
                progress(position, self.size)
            with self._reading:
                self._file.seek(position)
                piece = self._file.read(_CHUNK)
            if not piece:
                return
            position += len(piece)
            yield piece

    def close(self) -> None:
        self._file.close()


def too_large(what: str) -> Refused:
    """The refusal of a payload past the limit."""
    return Refused(
        f"{what} {'are' if what == 'arguments' else 'is'} larger than {LIMIT // 1024 // 1024} MiB when pickled",
        field=what,
        remedy="Read large data inside the function (from object storage or a URL), or send it in parts with .map.",
    )
