"""Blobs in a dict. Grants are plain and unsigned. For simulations and unit tests."""

from __future__ import annotations

import hashlib
import re
import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from ports.blobs import BlobInfo, Grant
from ports.clock import Clock
from ports.errors import AlreadyExists, Invalid, NotFound
from ports.units import Instant

_SEGMENT = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._-]{1,200}"
_KEY = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,15}}")
BLOCK = 64 * 1024


class MemoryBlobs:
    """`ports.blobs.BlobStore`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._blobs: dict[str, tuple[bytes, Instant]] = {}
        self._keys: list[str] = []  # in order: a long history has hundreds of thousands, and lists the few of one job
        self._lock = threading.Lock()

    def put(self, key: str, data: Iterable[bytes], only_new: bool = False) -> BlobInfo:
        _check(key)
        whole = b"".join(data)
        with self._lock:
            if only_new and key in self._blobs:
                raise AlreadyExists(key)
            if key not in self._blobs:
                insort(self._keys, key)
            self._blobs[key] = (whole, self._clock.now())
            return self._info(key)

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        _check(key)
        if offset < 0 or (length is not None and length < 0):
            raise Invalid(f"There is no range of {length} bytes from {offset}.", "range", "Give 0 or more.")
        if key not in self._blobs:
            raise NotFound(f"There is no blob {key}.", "key")
        part = self._blobs[key][0][offset : None if length is None else offset + length]
        return (part[at : at + BLOCK] for at in range(0, len(part), BLOCK))

    def join(self, keys: Iterable[str]) -> Iterator[bytes]:
        for key in keys:
            yield from self.get(key)

    def stat(self, key: str) -> BlobInfo | None:
        _check(key)
        with self._lock:
            return self._info(key) if key in self._blobs else None

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        folder, slash, _ = prefix.rpartition("/")
        if slash:
            _check(folder)
        with self._lock:
            first = bisect_left(self._keys, prefix)
            return iter([self._info(key) for key in takewhile(lambda key: key.startswith(prefix), islice(self._keys, first, None))])

    def copy(self, source: str, target: str) -> BlobInfo:
        _check(target)
        if self.stat(source) is None:
            raise NotFound(f"There is no blob {source}.", "key")
        return self.put(target, self.get(source))

    def delete(self, key: str) -> None:
        _check(key)
        with self._lock:
            if self._blobs.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def grant_read(self, key: str, expires: Instant) -> Grant:
        return Grant("GET", f"memory:{_check(key)}", key, 0, expires)

    def grant_write(self, prefix: str, max_size: int, expires: Instant) -> Grant:
        if not prefix.endswith("/") or max_size < 0:
            raise Invalid(f"{prefix!r:.80} is no folder of blobs.", "prefix", "End it in a slash.", prefix)
        return Grant("PUT", f"memory:{_check(prefix[:-1])}/{{name}}", prefix, max_size, expires)

    def _info(self, key: str) -> BlobInfo:
        data, modified = self._blobs[key]
        return BlobInfo(key, len(data), modified, hashlib.sha256(data).hexdigest())


def _check(key: str) -> str:
    if len(key) > 1000 or not _KEY.fullmatch(key):
        raise Invalid(f"{key!r:.80} is no key of a blob.", "key", "Give segments of [A-Za-z0-9._-] parted by single slashes.", key)
    return key
