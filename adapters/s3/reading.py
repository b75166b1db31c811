"""One object, or a range of it, as blocks: a connection that breaks is taken up again where it broke.

All blocks are of one version of the object, by its ETag. A reader of the whole object gets its last block only when the
bytes have the digest that was stored with them, so that what was cut short or damaged on its way is never taken as whole.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from adapters.s3.errors import STORE, answering, code_of
from ports.errors import NotFound, Unavailable

BLOCK = 256 * 1024  # bytes read at once
SHA256 = "sha256"  # the digest's name among the metadata
TRIES = 4  # in a row without a byte


class _ReplacedError(Exception):
    """Another version of the object is stored now."""


class Blocks(Iterator[bytes]):
    """Closed at its end, or when it is dropped. Raises Unavailable."""

    def __init__(self, client: Any, bucket: str, key: str, offset: int, length: int | None) -> None:
        """Raises NotFound, Unavailable."""
        self._client, self._bucket, self._key = client, bucket, key
        self._at, self._end = offset, 0
        self._length = length
        self._body: Any = None
        self._etag = self._wanted = ""
        self._size = 0
        self._failures = 0
        with answering(key):
            self._open()
        whole = offset == 0 and self._end == self._size and len(self._wanted) == 64
        self._digest = hashlib.sha256() if whole else None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._at >= self._end:
            self.close()
            raise StopIteration
        while True:
            block = self._read()
            if block:
                self._failures = 0
                self._at += len(block)
                self._check(block)
                return block
            self._again()

    def close(self) -> None:
        if self._body is not None:
            self._body.close()
            self._body = None

    def __del__(self) -> None:
        self.close()

    def _read(self) -> bytes:
        """b"" if the connection broke."""
        if self._body is None:
            return b""
        try:
            block: bytes = self._body.read(min(BLOCK, self._end - self._at))
        except (BotoCoreError, OSError):
            return b""
        return block

    def _again(self) -> None:
        self.close()
        self._failures += 1
        if self._failures >= TRIES:
            raise Unavailable(STORE, f"{self._key} breaks off again and again at byte {self._at}")
        time.sleep(min(5.0, 0.2 * 2**self._failures) * random.uniform(0.5, 1))  # noqa: S311 - jitter
        try:
            with answering(self._key):
                self._open()
        except _ReplacedError:
            raise Unavailable(STORE, f"{self._key} was replaced while it was read") from None
        except NotFound:
            raise Unavailable(STORE, f"{self._key} was deleted while it was read") from None
        except Unavailable:
            if self._failures >= TRIES - 1:
                raise

    def _open(self) -> None:
        """From where we are. Raises _ReplacedError, ClientError, BotoCoreError."""
        wanted: dict[str, str] = {}
        if self._etag:
            wanted = {"IfMatch": self._etag, "Range": f"bytes={self._at}-{self._end - 1}"}
        elif self._at or self._length is not None:
            wanted["Range"] = f"bytes={self._at}-{'' if self._length is None else self._at + self._length - 1}"
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key, **wanted)
        except ClientError as error:
            if code_of(error) == "PreconditionFailed":
                raise _ReplacedError from None
            if code_of(error) != "InvalidRange":
                raise
            self._end = self._size = self._at  # it ends before the range begins
            self._wanted = ""
            return
        self._body = answer["Body"]
        if not self._etag:
            self._etag = answer.get("ETag", "")
            self._wanted = answer.get("Metadata", {}).get(SHA256, "")
            self._size = _size(answer)
            self._end = self._size if self._length is None else min(self._at + self._length, self._size)

    def _check(self, block: bytes) -> None:
        if self._digest is None:
            return
        self._digest.update(block)
        if self._at == self._end and self._digest.hexdigest() != self._wanted:
            self.close()
            raise Unavailable(STORE, f"the bytes of {self._key} have another digest than was stored with them")


def _size(answer: Any) -> int:
    """Of the whole object."""
    total = str(answer.get("ContentRange", "")).rpartition("/")[2]
    return int(total) if total.isdigit() else int(answer["ContentLength"])
