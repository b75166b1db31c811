"""Blobs in a folder.

A blob is written under a temporary name and then linked or renamed to its own, so a reader sees all of it or
nothing, and a writer that dies leaves only a temporary file, which is swept later. It is never changed: another
put makes another file, so a copy is a hard link. At its end each file carries a trailer (mark, SHA-256, size)
that is no part of the data: thus the digest is kept in the same write, on any file system and through any
backup, and a file cut short by a power cut is known as such.

Key `a/b` lies at `objects/a/b~`: the sign that no key may hold lets `a/b` and `a/b/c` both exist.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from adapters.local.grants import read_grant, write_grant
from ports.blob_keys import checked_key
from ports.blobs import BlobInfo, Grant
from ports.errors import AlreadyExists, Invalid, NotFound, Unavailable
from ports.units import Instant, Span

BLOCK = 256 * 1024  # bytes read at once
TRIES = 100  # to find the folder of a new name where it has just been made
_TRAILER = struct.Struct("<8s32sQ")
_MARK = b"GWBLOB1\n"
_END = "~"
_TRANSIENT = "uploads/"


class FolderBlobs:
    """`ports.blobs.BlobStore`. Any number of processes may share the folder."""

    def __init__(self, folder: Path, base_url: str, secret: bytes, fsync: bool = True) -> None:
        """base_url: of the gateway that serves the grants. secret: signs them, the same in every process of the store.
        fsync: what was answered survives a power cut, except uploads and copies of them: these are on the disk within
        the system's own half minute, and a job whose inputs were cut short says so."""
        self._objects = str(folder / "objects")  # paths here are text: making them of parts is most of what a small file costs
        self._temporary = str(folder / "temporary")
        self._base_url = base_url.rstrip("/")
        self._secret = secret
        self._fsync = fsync
        with _answering:
            os.makedirs(self._objects, mode=0o700, exist_ok=True)
            os.makedirs(self._temporary, mode=0o700, exist_ok=True)

    def put(self, key: str, data: Iterable[bytes], only_new: bool = False) -> BlobInfo:
        target = self._path(key)
        with self._temporarily() as temporary:
            info = self._write(temporary, key, data)
            with _answering:
                self._name(temporary, target, key, only_new)
        return info

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        if offset < 0 or (length is not None and length < 0):
            raise Invalid(f"There is no range of {length} bytes from {offset}.", "range", "Give 0 or more.")
        with _answering:
            handle, _, size = self._open(key)
            blocks = _Blocks(handle)
            blocks.take(offset, size if length is None else min(size, offset + length))
            return blocks

    def join(self, keys: Iterable[str]) -> Iterator[bytes]:
        for key in keys:
            yield from self.get(key)

    def stat(self, key: str) -> BlobInfo | None:
        with _answering:
            try:
                handle, digest, size = self._open(key)
            except NotFound:
                return None
            try:
                return BlobInfo(key, size, _modified(os.fstat(handle)), digest.hex())
            finally:
                os.close(handle)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """Without digests: a listing opens no file."""
        folder, slash, start = prefix.rpartition("/")
        if slash:
            checked_key(folder)
        return self._walk(f"{self._objects}/{folder}".rstrip("/"), folder + slash, start)

    def copy(self, source: str, target: str) -> BlobInfo:
        """Both have the time of the copy afterwards: they are one file with two names. A damaged one gets neither."""
        place = self._path(target)
        with _answering:
            handle, digest, size = self._open(source)
            try:
                os.utime(handle)
                self._link(self._path(source), place, target)
                there = os.stat(place)
                if os.path.samestat(there, os.fstat(handle)):
                    return BlobInfo(target, size, _modified(there), digest.hex())
            except FileNotFoundError:
                raise NotFound(f"The blob {source}, or its copy, was deleted while it was copied.", "key") from None
            except OSError as error:
                if error.errno not in (errno.EMLINK, errno.EPERM, errno.ENOTSUP):
                    raise
                return self.put(target, self.get(source))
            finally:
                os.close(handle)
        found = self.stat(target)  # another put has changed one of them meanwhile
        if found is None:
            raise NotFound(f"The blob {target} was deleted while it was copied.", "key")
        return found

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _answering, contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            self._prune(os.path.dirname(path))

    def grant_read(self, key: str, expires: Instant) -> Grant:
        return read_grant(self._secret, self._base_url, key, expires)

    def grant_write(self, prefix: str, max_size: int, expires: Instant) -> Grant:
        return write_grant(self._secret, self._base_url, prefix, max_size, expires)

    def sweep(self, idle: Span = Span.of(hours=1)) -> int:
        """Remove temporary files that nobody has written to for `idle`; gives their number."""
        swept = 0
        with _answering:
            for entry in os.scandir(self._temporary):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - entry.stat().st_mtime >= idle.seconds:
                        os.unlink(entry.path)
                        swept += 1
        return swept

    # ------------------------------------------------------------ files

    def _path(self, key: str) -> str:
        return f"{self._objects}/{checked_key(key)}{_END}"

    def _open(self, key: str) -> tuple[int, bytes, int]:
        """Descriptor, digest and size of a whole blob. Raises NotFound, or Unavailable for a damaged one; of an upload that a power
        cut has damaged there is none: it is to be sent again."""
        try:
            handle = os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NotFound(f"There is no blob {key}.", "key") from None
        try:
            return handle, *_trailer(handle, key)
        except BaseException as error:
            os.close(handle)
            if isinstance(error, Unavailable) and key.startswith(_TRANSIENT):
                raise NotFound(f"There is no blob {key}.", "key") from None
            raise

    @contextlib.contextmanager
    def _temporarily(self) -> Iterator[str]:
        path = f"{self._temporary}/{secrets.token_hex(16)}"
        try:
            yield path
        finally:  # also after a rename onto another name of the same file, which does nothing
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _write(self, path: str, key: str, data: Iterable[bytes]) -> BlobInfo:
        """An error of `data` itself passes as it is."""
        digest, size = hashlib.sha256(), 0
        with _answering:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for block in data:
                digest.update(block)
                size += len(block)
                with _answering:
                    _write_all(handle, block)
            with _answering:
                _write_all(handle, _TRAILER.pack(_MARK, digest.digest(), size))
                if self._fsync and not key.startswith(_TRANSIENT):
                    os.fsync(handle)
                return BlobInfo(key, size, _modified(os.fstat(handle)), digest.hexdigest())
        finally:
            os.close(handle)

    def _name(self, temporary: str, target: str, key: str, only_new: bool, durable: bool = True) -> None:
        folder = os.path.dirname(target)
        for _ in range(TRIES):
            _make_folder(folder)
            try:
                (os.link if only_new else os.replace)(temporary, target)
                break
            except FileExistsError:
                if not key.startswith(_TRANSIENT) or self.stat(key) is not None:
                    raise AlreadyExists(key) from None
                only_new = False  # a damaged upload, or it is gone again
            except FileNotFoundError:
                continue
        else:
            raise Unavailable("the blob store", f"the folder of {key} vanishes again and again")
        if self._fsync and durable and not key.startswith(_TRANSIENT):
            with contextlib.suppress(FileNotFoundError):  # deleted again already
                _sync_folder(folder)

    def _link(self, origin: str, place: str, target: str) -> None:
        """Most copies are of inputs to where nothing has been before."""
        for _ in range(TRIES):
            try:
                os.link(origin, place)
            except FileNotFoundError:  # the folder, or the origin: then the last try says so again
                _make_folder(os.path.dirname(place))
            except FileExistsError:
                with self._temporarily() as temporary:
                    os.link(origin, temporary)
                    self._name(temporary, place, target, only_new=False, durable=False)
                return
            else:
                return
        os.link(origin, place)

    def _prune(self, folder: str) -> None:
        while folder != self._objects:
            try:
                os.rmdir(folder)
            except OSError:  # not empty, or gone already
                return
            folder = os.path.dirname(folder)

    def _walk(self, folder: str, above: str, start: str = "") -> Iterator[BlobInfo]:
        """In the order of whole keys: a folder counts as its name and a slash."""
        with _answering:
            try:
                names = sorted(_order(entry) for entry in os.scandir(folder))
            except (FileNotFoundError, NotADirectoryError):
                return
        for name in names:
            if not name.startswith(start):
                continue
            if name.endswith("/"):
                yield from self._walk(f"{folder}/{name[:-1]}", above + name)
                continue
            with _answering, contextlib.suppress(FileNotFoundError):
                found = os.stat(f"{folder}/{name}{_END}")
                yield BlobInfo(above + name, found.st_size - _TRAILER.size, _modified(found))


class _Blocks:
    """Reads one open file to the end of a range, and closes it then, or when it is dropped."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle
        self._at = self._end = 0

    def take(self, start: int, end: int) -> None:
        self._at, self._end = start, end

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._handle is None or self._at >= self._end:
            self.close()
            raise StopIteration
        with _answering:
            block = os.pread(self._handle, min(BLOCK, self._end - self._at), self._at)
        if not block:
            raise Unavailable("the blob store", "a file became shorter while it was read")
        self._at += len(block)
        return block

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    __del__ = close


def _order(entry: os.DirEntry[str]) -> str:
    return entry.name + "/" if entry.is_dir(follow_symlinks=False) else entry.name.removesuffix(_END)


def _modified(found: os.stat_result) -> Instant:
    return Instant(found.st_mtime_ns // 1_000_000)


def _trailer(handle: int, key: str) -> tuple[bytes, int]:
    """Digest and size of an open blob. Raises Unavailable for a file that is no whole blob."""
    size = os.fstat(handle).st_size - _TRAILER.size
    if size >= 0:
        mark, digest, told = _TRAILER.unpack(os.pread(handle, _TRAILER.size, size))
        if mark == _MARK and told == size:
            return digest, size
    raise Unavailable("the blob store", f"the file of {key} is damaged")


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _make_folder(folder: str) -> None:
    """A delete may just be removing it, since it is empty: whoever needs it tries again."""
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:  # of most, only the last part is missing, or the last two
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            os.makedirs(folder, mode=0o700, exist_ok=True)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class _Answering:
    """What the system refuses becomes Unavailable. In a class: a generator costs as much as the call that it guards."""

    __slots__ = ()

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, OSError):
            raise Unavailable("the blob store", error.strerror or "") from error


_answering = _Answering()
