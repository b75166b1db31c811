"""Many small objects as one stream: the chunks of a log, of which there may be ten thousand.

They are fetched ahead of the reader over many connections at once, so that a round trip is waited for once and not for each,
and with as little work for each as can be: signed, asked, its digest checked. Whatever is not plain there (a large
object, an error, a wrong digest, a broken connection) is read again in the careful way of `adapters.s3.reading`, which
retries and explains; so this one need not.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import chain, islice
from urllib.parse import urlsplit

from attrs import define
from botocore.exceptions import BotoCoreError

from adapters.s3.client import CONNECT_S, READ_S, Connection
from adapters.s3.reading import SHA256

LINES = 32  # connections of one stream
AHEAD = 2 * LINES  # objects that are asked for or wait to be read
LARGEST = 512 * 1024  # bytes of an object that is read in one piece
FEW = 4  # objects, for which one after another will do
FAILURES = 3  # until all the rest is read in the careful way
_HASH = "UNSIGNED-PAYLOAD"
_NAMES = ("host", "x-amz-content-sha256", "x-amz-date")


def joined(connection: Connection, bucket: str, keys: Iterable[str], careful: Callable[[str], Iterator[bytes]]) -> Iterator[bytes]:
    """The objects at `keys`, one after the other. careful: reads one of them, and raises what is wrong with it."""
    left = iter(keys)
    first = list(islice(left, FEW))
    if len(first) < FEW:  # not worth connections of their own
        for key in first:
            yield from careful(key)
        return
    ahead = _Ahead(connection, bucket)
    try:
        for key, data in ahead.run(chain(first, left)):
            if data is None:
                yield from careful(key)
            elif data:
                yield data
    finally:
        ahead.close()


@cache
def _trusting() -> ssl.SSLContext:
    """Whom this machine trusts; read once."""
    return ssl.create_default_context()


@define
class _Line:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Ahead:
    """Its event loop runs in the reader's thread, and only while that waits for the next object."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self._connection, self._bucket = connection, bucket
        self._url = urlsplit(connection.endpoint)
        self._loop, self._gate = asyncio.new_event_loop(), asyncio.Semaphore(LINES)
        self._idle, self._all = list[_Line](), list[_Line]()
        self._waiting = deque[tuple[str, asyncio.Task[bytes | None]]]()
        self._left = FAILURES if self._url.path in ("", "/") else 0  # a path of a proxy's would be signed too
        self._secure = _trusting() if self._url.scheme == "https" else None

    def run(self, keys: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """None: it is to be read in the careful way."""
        left = iter(keys)
        while True:
            while len(self._waiting) < AHEAD and (key := next(left, None)) is not None:
                self._waiting.append((key, self._loop.create_task(self._fetch(key))))
            if not self._waiting:
                return
            key, task = self._waiting[0]
            data = self._loop.run_until_complete(task)
            self._waiting.popleft()
            yield key, data

    def close(self) -> None:
        for _, task in self._waiting:
            task.cancel()
        self._loop.run_until_complete(self._hang_up())
        self._loop.close()

    async def _hang_up(self) -> None:
        await asyncio.gather(*(task for _, task in self._waiting), return_exceptions=True)
        for line in self._all:
            line.writer.close()
        for line in self._all:
            with suppress(OSError):
                await line.writer.wait_closed()

    async def _fetch(self, key: str) -> bytes | None:
        async with self._gate:
            if self._left <= 0:
                return None
            try:
                line = self._idle.pop() if self._idle else await self._connect()
                async with asyncio.timeout(READ_S):
                    data = await self._ask(line, key)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, BotoCoreError):
                self._left -= 1  # the careful way tells what it is
                return None
            if data is not None:
                self._idle.append(line)
            return data

    async def _connect(self) -> _Line:
        port = self._url.port or (443 if self._secure else 80)
        async with asyncio.timeout(CONNECT_S):
            line = _Line(*await asyncio.open_connection(self._url.hostname, port, ssl=self._secure))
        self._all.append(line)
        return line

    async def _ask(self, line: _Line, key: str) -> bytes | None:
        """None where the answer is not plainly the object; the connection is of no use then."""
        path = f"/{self._bucket}/{key}"
        headers = "".join(f"{name}: {value}\r\n" for name, value in self._signed(path).items())
        line.writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
        first, *rest = (await line.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
        told = dict(each.split(": ", 1) for each in rest if ": " in each)
        size = int(told.get("content-length", "-1"))
        if first.split(" ")[1] != "200" or not 0 <= size <= LARGEST or told.get("connection") == "close":
            return None
        data = await line.reader.readexactly(size)
        digest = told.get(f"x-amz-meta-{SHA256}", "")
        return data if not digest or hashlib.sha256(data).hexdigest() == digest else None

    def _signed(self, path: str) -> dict[str, str]:
        """Signature version 4 of a GET without a query. A key of ours needs no encoding."""
        keys = self._connection.credentials.get_frozen_credentials()
        at = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        headers = dict(zip(_NAMES, (self._url.netloc, _HASH, at), strict=True))
        if keys.token:
            headers["x-amz-security-token"] = keys.token
        names = ";".join(headers)
        request = "\n".join(("GET", path, "", *(f"{name}:{value}" for name, value in headers.items()), "", names, _HASH))
        scope = f"{at[:8]}/{self._connection.region}/s3/aws4_request"
        text = "\n".join(("AWS4-HMAC-SHA256", at, scope, hashlib.sha256(request.encode()).hexdigest()))
        secret = f"AWS4{keys.secret_key}".encode()
        for part in scope.split("/"):
            secret = hmac.digest(secret, part.encode(), "sha256")
        signature = hmac.digest(secret, text.encode(), "sha256").hex()
        who = f"AWS4-HMAC-SHA256 Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**headers, "Authorization": who}
