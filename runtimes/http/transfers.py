"""Bodies between the event loop and blocking ports, a block at a time: memory stays constant, whatever the size."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import falcon.asgi

from ports.errors import Unavailable
from runtimes.http.edge import gone
from runtimes.http.pools import Pool
from runtimes.http.refusals import TooLarge, TooSilent, WrongContentType
from runtimes.http.spool import Spool

T = TypeVar("T")
BLOCK = 256 * 1024  # bytes of a body in memory, at most; what is more waits on the disk
SILENCE_S = 45.0  # a client that sends nothing for so long is given up; the server itself gives it up after a minute
_WRITE_S = 60.0  # for one block to the gateway's own disk


async def json_body(req: falcon.asgi.Request, limit: int) -> bytes:
    """The whole body of a JSON request. Raises WrongContentType or TooLarge, whether or not it has a length."""
    kind = (req.content_type or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"The content type is {kind or 'not given'}." if len(kind) < 100 else "The content type is not JSON."
        raise WrongContentType(message, "Content-Type", "Send Content-Type: application/json.", kind[:100])
    check_encoding(req)
    data = bytearray()
    async for block in blocks(req, limit):
        data += block
    return bytes(data)


def check_encoding(req: falcon.asgi.Request) -> None:
    encoding = req.get_header("Content-Encoding") or "identity"
    if encoding.lower() != "identity":
        raise WrongContentType(f"The body is encoded as {encoding[:60]!r}.", "Content-Encoding", "Send it plain.", encoding[:60])


async def blocks(req: falcon.asgi.Request, limit: int, silence_s: float = SILENCE_S) -> AsyncIterator[bytes]:
    """The body as it arrives, however slowly. Raises TooLarge at the first byte too many, TooSilent if for `silence_s` nothing
    comes, and Unavailable if the client goes away."""
    length = req.content_length
    if length is not None and length > limit:
        raise too_large(limit, length)
    seen = 0
    arriving = aiter(req.stream)
    while (block := await _next(arriving, silence_s, seen)) is not None:
        seen += len(block)
        if seen > limit:
            raise too_large(limit, seen)
        yield block
    if gone(req) or (length is not None and seen < length):
        raise Unavailable("the client", "it went away before its body was complete")


async def _next(arriving: AsyncIterator[bytes], silence_s: float, seen: int) -> bytes | None:
    """None at the end. What is done with a block does not count as the client's silence."""
    try:
        async with asyncio.timeout(silence_s):
            return await anext(arriving, None)
    except TimeoutError:
        message = f"No more of the body came for {silence_s:g} seconds, after {seen} bytes; nothing of it was kept."
        raise TooSilent(
            message, "body", f"Send it again. It may take as long as it likes, with no pause of {silence_s:g} seconds."
        ) from None


def too_large(limit: int, seen: int) -> TooLarge:
    return TooLarge(f"The body has {seen} bytes or more.", "body", f"Send at most {limit} bytes.", limit)


class Hashing:
    """Passes blocks through and keeps their SHA-256 and size."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()
        self.size = 0

    def through(self, data: Iterator[bytes]) -> Iterator[bytes]:
        for block in data:
            self._sha256.update(block)
            self.size += len(block)
            yield block

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()


async def feed(source: AsyncIterator[bytes], pool: Pool, take: Callable[[Iterator[bytes]], T], spool: Path | None = None) -> T:
    """Run `take` in a thread on the blocks of `source` once they are all here; if the source fails, it is not called.

    The client is waited for on the event loop. A thread is taken only to write what has arrived, so that any number of slow or
    silent clients hold none; and while it writes, nothing more is read. spool: the folder in which a large body waits, the
    system's own by default.
    """
    waiting, held = Spool(spool), bytearray()
    async for block in source:
        held += block
        while len(held) >= BLOCK:
            await pool.run(waiting.write, bytes(held[:BLOCK]), deadline_s=_WRITE_S)
            del held[:BLOCK]
    return await pool.run(_taken, take, waiting, bytes(held))


def _taken(take: Callable[[Iterator[bytes]], T], waiting: Spool, last: bytes) -> T:
    return take(waiting.blocks(last))


async def drain(pool: Pool, data: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Blocks of a blocking iterator, each fetched in a thread only when the last one is on its way."""
    while True:
        block = await pool.run(next, data, b"")
        if not block:
            return
        yield block
