"""Clients that cost next to nothing: requests as bytes on kept connections, and streams of server-sent events read raw.

What is measured is then the server and not a client library.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from urllib.parse import urlsplit

_AGAIN_S = 0.5


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def rate(url: str, requests: Iterable[bytes], clients: int) -> tuple[float, Counter[int]]:
    """Answers per second with so many clients at once, and how often each status came."""
    return asyncio.run(_rate(url, iter(requests), clients))


async def _rate(url: str, requests: Iterator[bytes], clients: int) -> tuple[float, Counter[int]]:
    statuses: Counter[int] = Counter()

    async def client() -> None:
        reader, writer = await connect(url)
        for each in requests:
            writer.write(each)
            status, length = await head(reader)
            await reader.readexactly(length)
            statuses[status] += 1
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return sum(statuses.values()) / (time.perf_counter() - began), statuses


async def connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    return await asyncio.open_connection(parts.hostname, parts.port)


async def head(reader: asyncio.StreamReader) -> tuple[int, int]:
    """Status and length of the body, -1 if it comes in chunks."""
    status, length = int((await reader.readline()).split()[1]), 0
    while line := (await reader.readline()).strip().lower():
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        elif line.startswith(b"transfer-encoding:"):
            length = -1
    return status, length


async def log_of(url: str, path: str, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """The pieces of a followed log, until the stream says that it has ended. Raises EOFError if it breaks off before.

    A server that has too many to let in at once (503) is asked again, as any client should.
    """
    while True:
        reader, writer = await connect(url)
        writer.write(request("GET", path, {**headers, "Accept": "text/event-stream"}))
        status, length = await head(reader)
        if status != 503:
            break
        writer.close()
        await asyncio.sleep(_AGAIN_S)
    if status != 200 or length != -1:
        raise EOFError(f"answered {status}")
    rest = b""
    try:
        while size := int((await reader.readline()) or b"0", 16):
            *events, rest = (rest + (await reader.readexactly(size + 2))[:-2]).replace(b"\r\n", b"\n").split(b"\n\n")
            for event in events:
                fields = dict(line.partition(b": ")[::2] for line in event.split(b"\n"))
                if fields.get(b"event") == b"log":
                    yield json.loads(fields[b"data"])["text"].encode()
                elif fields.get(b"event") == b"end":
                    return
    finally:
        writer.close()
    raise EOFError("the stream ended before the log did")
