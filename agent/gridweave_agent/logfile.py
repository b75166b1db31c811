"""A run's log on disk: raw bytes as they came, up to a cap, and a full disk loses bytes but never the run."""

from __future__ import annotations

import os


class LogFile:
    """Append-only. size: bytes in the file. Over `cap`, or while the disk is full, bytes are dropped and a note says so."""

    def __init__(self, path: str, cap: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.size = os.fstat(self._fd).st_size
        self._cap = cap
        self._capped = False
        self._lost = 0

    def write(self, data: bytes) -> None:
        if self._capped:
            return
        room = self._cap - self.size
        self._append(data[:room])
        if len(data) > room:
            self._capped = True
            self._append(f"\n[gridweave: the log reached its limit of {self._cap} bytes; what follows is not kept]\n".encode())

    def close(self) -> None:
        if self._lost:
            self._append(f"\n[gridweave: {self._lost} bytes of the log are lost: the node's disk was full]\n".encode())
        os.close(self._fd)

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                written = os.write(self._fd, view)
                self.size += written
                view = view[written:]
        except OSError:
            self._lost += len(view)
