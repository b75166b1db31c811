"""Length-prefixed bytes from the user's process to its supervisor: kind (1 byte), length (8 bytes), payload.

D: a piece of the result; A: all good, it waits for go; N: a note, JSON about the outcome; R, X: what was sent is
the whole value, or the whole exception; Z: it was not, drop it. Constant memory on both sides.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from contextlib import suppress

DATA, READY, NOTE, VALUE, EXCEPTION, DROP = b"D", b"A", b"N", b"R", b"X", b"Z"
_HEADER = struct.Struct(">cQ")
_NOTE_LIMIT = 1 << 20


def write_frame(fd: int, kind: bytes, payload: bytes | memoryview = b"") -> None:
    """All of the frame, blocking. Raises OSError if nobody reads."""
    for part in (_HEADER.pack(kind, len(payload)), payload):
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]


class FrameReader:
    """The supervisor's end: feed it bytes as they come, in pieces of any size.

    The result goes to `path` while it comes, and counts only once it is whole. ready: it waits for go.
    complete: "", "R" or "X". note: what the process said of its outcome. failure: why a whole result is not kept. lost: why
    it could not be, although nothing is wrong with it.
    """

    def __init__(self, path: str, cap: int) -> None:
        self.ready = False
        self.complete = ""
        self.failure = self.lost = ""
        self.size = 0
        self.note: dict[str, object] = {}
        self._digest = hashlib.sha256()
        self._path, self._cap = path, cap
        self._file = -1
        self._head = b""
        self._kind, self._left = b"", 0
        self._note = bytearray()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def kept(self) -> bool:
        """Whether a whole result is on the disk."""
        return bool(self.complete) and not self.failure and not self.lost

    def feed(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.complete:
            if not self._kind:
                need = _HEADER.size - len(self._head)
                self._head += bytes(view[:need])
                view = view[need:]
                if len(self._head) < _HEADER.size:
                    return
                self._kind, self._left = _HEADER.unpack(self._head)
                self._head = b""
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            self._take(piece)
            if self._left == 0:
                kind, self._kind = self._kind, b""
                self._end(kind)

    def close(self) -> None:
        """Nothing more comes: an unfinished result goes, a whole one is on disk for good."""
        if self._file >= 0:
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1
        if not self.kept:
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    def _take(self, piece: memoryview) -> None:
        if self._kind == DATA:
            self._store(piece)
        elif self._kind == NOTE and len(self._note) < _NOTE_LIMIT:
            self._note += piece

    def _store(self, piece: memoryview) -> None:
        self.size += len(piece)
        if self.failure or self.lost:
            return
        if self.size > self._cap:
            self.failure = f"the result is larger than the {self._cap} bytes that are kept"
            return
        self._digest.update(piece)
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            while piece:
                piece = piece[os.write(self._file, piece) :]
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            self.lost = f"the disk of its node {'is full' if full else 'did not take it'} ({error.strerror})"

    def _end(self, kind: bytes) -> None:
        if kind == READY:
            self.ready = True
        elif kind == NOTE:
            with suppress(ValueError):
                value = json.loads(bytes(self._note))
                self.note = value if isinstance(value, dict) else {}
            self._note.clear()
        elif kind == DROP:
            self._digest = hashlib.sha256()
            self.size, self.failure, self.lost = 0, "", ""
            if self._file >= 0:
                os.ftruncate(self._file, 0)
                os.lseek(self._file, 0, os.SEEK_SET)
        elif kind in (VALUE, EXCEPTION):
            self.complete = kind.decode()
