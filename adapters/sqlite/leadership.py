"""Who schedules on this machine: the process that holds the lock on a file beside the database.

The lock belongs to the open file, as one of flock does: it goes when its process ends, however it ends, and
stays while the process is stopped. Unlike flock's, it can be asked about without being taken, so that asking
never makes another's attempt fail. Whoever holds it writes into the file who he is, for people.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

from ports.errors import Unavailable
from ports.leadership import Holder

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid (0 for such locks)


class FileLeadership:
    """`ports.leadership.Leadership` by the lock file `path`. Not for a file system that several machines mount."""

    def __init__(self, path: Path, identity: str) -> None:
        """identity: in words for people, such as the host's name and a fresh id."""
        self._path = path
        self._identity = identity
        self._mutex = threading.Lock()
        self._handle: int | None = None

    def acquire(self) -> bool:
        with self._mutex, _asked():
            if self._handle is not None and _is_at(self._handle, self._path):
                return True
            self._let_go()  # somebody removed or replaced the file: that lock excludes nobody any more
            return self._take()

    def release(self) -> None:
        with self._mutex, _asked():
            if self._handle is not None:
                os.ftruncate(self._handle, 0)
            self._let_go()

    def holder(self) -> Holder | None:
        with _asked():
            try:
                handle = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            try:
                answer = fcntl.fcntl(handle, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
                if struct.unpack(_FLOCK, answer)[0] == fcntl.F_UNLCK:
                    return None
                return _read(os.pread(handle, 4096, 0))
            finally:
                os.close(handle)

    def _take(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            taken = _locked(handle) and _is_at(handle, self._path)  # it may have been removed between opening and locking
            if taken:
                os.ftruncate(handle, 0)
                os.pwrite(handle, json.dumps({"identity": self._identity, "pid": os.getpid()}).encode(), 0)
        except BaseException:
            os.close(handle)
            raise
        if taken:
            self._handle = handle
        else:
            os.close(handle)
        return taken

    def _let_go(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@contextlib.contextmanager
def _asked() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable("the scheduler's lock file", error.strerror or "") from error


def _locked(handle: int) -> bool:
    try:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _whole_file(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)


def _is_at(handle: int, path: Path) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), named)


def _read(text: bytes) -> Holder:
    """The holder may be about to write: then it is somebody, only unnamed."""
    try:
        found = json.loads(text)
        return Holder(str(found["identity"]), int(found["pid"]))
    except (ValueError, KeyError, TypeError):
        return Holder("unknown")
