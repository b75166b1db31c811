"""Bodies between the event loop and blocking ports, a block at a time: memory stays constant, whatever the size."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import falcon.asgi

from ports.errors import Unavailable
from runtimes.http.edge import gone
from runtimes.http.pools import Pool
from runtimes.http.refusals import TooLarge, WrongContentType

T = TypeVar("T")
BLOCK = 256 * 1024
_AHEAD = 4  # blocks that may wait between loop and thread
_STALL_S = 60.0  # a client that sends nothing for so long is given up


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


async def blocks(req: falcon.asgi.Request, limit: int) -> AsyncIterator[bytes]:
    """The body as it arrives. Raises TooLarge at the first byte too many, and Unavailable if the client goes away."""
    length = req.content_length
    if length is not None and length > limit:
        raise too_large(limit, length)
    seen = 0
    async for block in req.stream:
        seen += len(block)
        if seen > limit:
            raise too_large(limit, seen)
        yield block
    if gone(req) or (length is not None and seen < length):
        raise Unavailable("the client", "it went away before its body was complete")


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


async def feed(source: AsyncIterator[bytes], pool: Pool, take: Callable[[Iterator[bytes]], T], deadline_s: float) -> T:
    """Run `take` in a thread on the blocks of `source`. If the source fails, so does the iterator that `take` reads."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(_AHEAD)

    def arriving() -> Iterator[bytes]:
        while True:
            item = asyncio.run_coroutine_threadsafe(queue.get(), loop).result(_STALL_S)
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    pump = asyncio.ensure_future(_pump(source, queue))
    try:
        return await pool.run(take, arriving(), deadline_s=deadline_s)
    finally:
        pump.cancel()
        _unblock(queue)


async def _pump(source: AsyncIterator[bytes], queue: asyncio.Queue[Any]) -> None:
    held = bytearray()
    try:
        async for block in source:
            held += block
            while len(held) >= BLOCK:
                await queue.put(bytes(held[:BLOCK]))
                del held[:BLOCK]
        if held:
            await queue.put(bytes(held))
        await queue.put(None)
    except Exception as error:
        await queue.put(error)


def _unblock(queue: asyncio.Queue[Any]) -> None:
    """A thread that still waits for blocks gets an error instead."""
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(Unavailable("the client", "the request was given up"))


async def drain(pool: Pool, data: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Blocks of a blocking iterator, each fetched in a thread only when the last one is on its way."""
    while True:
        block = await pool.run(next, data, b"")
        if not block:
            return
        yield block
