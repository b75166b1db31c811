"""How much faster a log of many chunks is read from S3 as one stream than with one GET after another.

    python -m benchmarks.log_read [--chunks 10000] [--round-trip 5] [--json]

Both ways read the same chunks and give the same bytes, from a real SeaweedFS on this machine, behind a line whose answers
take `round-trip` milliseconds longer, as those of a bucket in the same region do at the least (S3 itself takes 10 to 30).
`ratio` is the time of a chunk by one GET after another over that of a chunk in the stream; a tenth of the chunks, taken in
turns with parts of the stream, stands for all of the slow way. `ratio_loopback` is the same without the line, where
nothing is waited for and all is work: of the stream's 0.35 ms a chunk our own is 0.08, the rest is SeaweedFS's, whatever the
number of connections from 32 to 128.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from adapters.local.clock import SystemClock
from adapters.s3.blobs import S3Blobs
from adapters.s3.client import connect
from ports.blobs import log_key
from tests.s3.seaweed import ACCESS_KEY, BUCKET, SECRET_KEY, Seaweed, running

ROUNDS = 5
SAMPLE = 10  # one in so many is read one after another
SIZE = 400  # bytes of a chunk: a few lines


@contextmanager
def line(port: int, delay_s: float) -> Iterator[int]:
    """A relay to that port whose answers come so much later; gives its own port."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def onward() -> None:
            with suppress(OSError):
                while data := await reader.read(65536):
                    back.write(data)
            back.close()

        asking = asyncio.ensure_future(onward())
        with suppress(OSError, asyncio.CancelledError):  # the latter when all is over
            while data := await there.read(65536):
                asyncio.get_running_loop().call_later(delay_s, writer.write, data)
        asking.cancel()
        asyncio.get_running_loop().call_later(delay_s, writer.close)

    async def serve() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        started.put((asyncio.get_running_loop(), server.sockets[0].getsockname()[1], stopping := asyncio.Event()))
        await stopping.wait()
        server.close()

    started = queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, int, asyncio.Event]]()
    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="line")
    thread.start()
    loop, own, stopping = started.get()
    try:
        yield own
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()


def ratio(store: S3Blobs, keys: list[str], expected: list[bytes]) -> tuple[float, float, float]:
    """And the seconds of one chunk, in each way."""
    alone = joined = 0.0
    part, few = len(keys) // ROUNDS, len(keys) // ROUNDS // SAMPLE
    for start in range(0, ROUNDS * part, part):  # in turns, so that a noisy machine is noisy for both
        began = time.perf_counter()
        one_by_one = b"".join(b"".join(store.get(key)) for key in keys[start : start + few])
        then = time.perf_counter()
        stream = b"".join(store.join(keys[start : start + part]))
        joined += time.perf_counter() - then
        alone += then - began
        assert b"".join(expected[start : start + few]) == one_by_one
        assert b"".join(expected[start : start + part]) == stream
    alone, joined = alone / ROUNDS / few, joined / ROUNDS / part
    return alone / joined, alone, joined


def measured(seaweed: Seaweed, chunks: int, round_trip_ms: float) -> dict[str, float]:
    keys = [log_key("job-of-the-benchmark", 1, 0, n) for n in range(chunks)]
    expected = [f"{n:08d} ".encode() * (SIZE // 9) for n in range(chunks)]
    with closing(seaweed.connection()) as near:
        store = S3Blobs(near, BUCKET, SystemClock())
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda n: store.put(keys[n], [expected[n]]), range(chunks)))
        loopback, _, _ = ratio(store, keys, expected)
    with (
        line(seaweed.ports["s3.port"], round_trip_ms / 1000) as port,
        closing(connect(f"http://127.0.0.1:{port}", ACCESS_KEY, SECRET_KEY)) as far,
    ):
        found, alone, joined = ratio(S3Blobs(far, BUCKET, SystemClock()), keys, expected)
    return {
        "ratio": found,
        "ratio_loopback": loopback,
        "chunks": chunks,
        "round_trip_ms": round_trip_ms,
        "one_by_one_ms": alone * 1000,
        "stream_ms": joined * 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--round-trip", type=float, default=5.0, help="milliseconds that the line adds to each answer")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as seaweed:
        found = measured(seaweed, given.chunks, given.round_trip)
    print(
        f"{given.chunks} chunks, {given.round_trip:g} ms away: {found['one_by_one_ms']:.2f} ms a chunk one by one, "
        f"{found['stream_ms']:.2f} ms in one stream: {found['ratio']:.1f} times faster ({found['ratio_loopback']:.1f} without the way)"
    )
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
