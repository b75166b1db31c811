"""Uploads and blobs by grant."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.local.blobs import FolderBlobs
from core.names import upload_key
from ports.blobs import BlobInfo
from ports.errors import Unavailable
from ports.units import Span
from runtimes.http import transfers
from runtimes.http.pools import Pool
from tests.unit.http.conftest import ALICE, BOB, Gateway, until

DATA = b"function of alice" * 1000
DIGEST = hashlib.sha256(DATA).hexdigest()


def announced(gateway: Gateway, data: bytes = DATA, headers: Any = None) -> dict[str, Any]:
    answer = gateway.post("/v1/uploads", headers, json={"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)})
    said: dict[str, Any] = answer.json()
    return said | {"status": answer.status_code}


def test_bytes_go_where_the_grant_says_and_are_there_then(gateway: Gateway) -> None:
    """The round trip that every large function makes."""
    grant = announced(gateway)
    assert (201, False, "PUT") == (grant["status"], grant["present"], grant["method"])
    assert grant["url"].startswith("/v1/blobs/")
    put = gateway.request("PUT", grant["url"], {}, content=DATA)
    assert (201, {"size": len(DATA), "sha256": DIGEST}) == (put.status_code, put.json())
    assert (200, True) == (announced(gateway)["status"], announced(gateway)["present"])


def test_an_upload_of_one_user_is_not_present_for_another(gateway: Gateway) -> None:
    """ "present" would tell that somebody has these very bytes, and hand them out."""
    gateway.request("PUT", announced(gateway)["url"], {}, content=DATA)
    assert announced(gateway, headers=BOB)["present"] is False


@pytest.mark.parametrize("sent", [DATA[:-1], DATA[:-1] + b"!", b""])
def test_other_bytes_than_announced_are_refused_and_not_kept(gateway: Gateway, sent: bytes) -> None:
    """What lies under a digest is what everybody takes it for."""
    answer = gateway.request("PUT", announced(gateway)["url"], {}, content=sent)
    assert (400, "sha256") == (answer.status_code, answer.json()["field"])
    assert gateway.house.blobs.stat(upload_key("alice", DIGEST)) is None


@pytest.mark.parametrize("chunked", [False, True])
def test_more_bytes_than_announced_are_refused(gateway: Gateway, chunked: bool) -> None:
    """A grant for a kilobyte is none for a disk."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield DATA

    answer = gateway.request("PUT", announced(gateway)["url"], {}, content=pieces() if chunked else DATA * 10)
    assert 413 == answer.status_code
    assert gateway.house.blobs.stat(upload_key("alice", DIGEST)) is None


def test_a_size_that_differs_from_what_is_there_is_refused(gateway: Gateway) -> None:
    """One digest has one size."""
    gateway.house.blobs.put(upload_key("alice", DIGEST), [DATA])
    answer = gateway.post("/v1/uploads", json={"sha256": DIGEST, "size": 3})
    assert (400, "size") == (answer.status_code, answer.json()["field"])


@pytest.mark.parametrize("change", [("max=", "max=9"), ("sig=", "sig=0"), ("expires=", "expires=9"), ("uploads/", "jobs/")])
def test_an_altered_url_is_forbidden(gateway: Gateway, change: tuple[str, str]) -> None:
    """The URL is the permission; nobody may stretch it."""
    url = announced(gateway)["url"].replace(*change, 1)
    assert 403 == gateway.request("PUT", url, {}, content=DATA).status_code


@pytest.mark.parametrize(
    "path", ["/v1/blobs/jobs/x/1/result", "/v1/blobs/%2e%2e/%2e%2e/etc/passwd", "/v1/blobs/a/%2e%2e/b", "/v1/blobs/%00"]
)
def test_without_a_grant_there_is_nothing(gateway: Gateway, path: str) -> None:
    """Not even for an admin: identity plays no part here."""
    assert 403 == gateway.get(path, ALICE | {"X-User-Role": "admin"}).status_code


def test_a_granted_object_can_be_read_in_ranges(gateway: Gateway) -> None:
    """Agents fetch inputs this way."""
    gateway.house.blobs.put("jobs/job-a/function", [DATA])
    url = gateway.house.blobs.grant_read("jobs/job-a/function", gateway.house.clock.now() + Span.of(minutes=1)).url
    path = url.removeprefix("http://gateway.internal:8200")
    assert DATA == gateway.get(path, {}).content
    part = gateway.get(path, {"Range": "bytes=3-5"})
    assert (206, DATA[3:6]) == (part.status_code, part.content)
    assert 403 == gateway.request("PUT", path, {}, content=b"x").status_code
    gateway.house.blobs.delete("jobs/job-a/function")
    assert 404 == gateway.get(path, {}).status_code


def test_a_runs_output_needs_no_digest_in_its_name(gateway: Gateway) -> None:
    """An agent does not know a result's digest before it has sent it."""
    grant = gateway.house.blobs.grant_write("jobs/job-a/1/", 1_000_000, gateway.house.clock.now() + Span.of(minutes=1))
    path = grant.url.removeprefix("http://gateway.internal:8200").replace("{name}", "logs/0/000000000")
    assert 201 == gateway.request("PUT", path, {}, content=b"line\n").status_code
    assert b"line\n" == b"".join(gateway.house.blobs.get("jobs/job-a/1/logs/0/000000000"))


class Recording:
    """A blob store that notes how many blocks were ahead of it."""

    def __init__(self, store: FolderBlobs) -> None:
        self._store = store
        self.sizes: list[int] = []

    def put(self, key: str, data: Iterable[bytes], only_new: bool = False) -> BlobInfo:
        def noted() -> Iterator[bytes]:
            for block in data:
                self.sizes.append(len(block))
                yield block

        return self._store.put(key, noted(), only_new)


def test_a_large_body_passes_in_blocks(gateway: Gateway) -> None:
    """512 MiB must not need 512 MiB of memory: no block is larger than a quarter of a MiB, however it arrives."""
    house = gateway.house
    assert isinstance(house.blobs, FolderBlobs)
    recording = Recording(house.blobs)
    total = 5 * 1024 * 1024

    async def source() -> AsyncIterator[bytes]:
        for _ in range(total // (1024 * 1024)):
            yield b"x" * (1024 * 1024)

    async def run() -> BlobInfo:
        return await transfers.feed(source(), Pool("test", 1, 60), lambda data: recording.put("a/b", data))

    assert total == gateway.run(run()).size
    assert {transfers.BLOCK} == set(recording.sizes)


def test_a_source_that_fails_leaves_nothing(gateway: Gateway) -> None:
    """A client that hangs up in the middle has stored nothing."""

    async def source() -> AsyncIterator[bytes]:
        yield b"x" * transfers.BLOCK
        raise Unavailable("the client", "gone")

    async def run() -> None:
        await transfers.feed(source(), Pool("test", 1, 60), lambda data: gateway.house.blobs.put("a/b", data))

    with pytest.raises(Unavailable):
        gateway.run(run())
    assert gateway.house.blobs.stat("a/b") is None


def put(gateway: Gateway, runner: asyncio.Runner, receive: Callable[[], Awaitable[dict[str, Any]]]) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer to a result whose pieces come as `receive` gives them."""
    grant = gateway.house.blobs.grant_write("jobs/job-a/1/", 100_000_000, gateway.house.clock.now() + Span.of(minutes=1))
    url = grant.url.removeprefix("http://gateway.internal:8200").replace("{name}", "result")
    path, _, query = url.partition("?")
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "PUT",
        "scheme": "http",
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"transfer-encoding", b"chunked")],
    }
    runner.run(gateway.app(scope, receive, send))
    return said[0]["status"], json.loads(said[1]["body"])


def piece(data: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": data, "more_body": more}


def test_a_client_that_hangs_up_has_stored_nothing(gateway: Gateway) -> None:
    """Half a result that looks whole would be billed and returned."""
    events: Iterator[dict[str, Any]] = iter([piece(b"half"), {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return next(events, {"type": "http.disconnect"})

    assert 503 == put(gateway, gateway.runner, receive)[0]
    assert gateway.house.blobs.stat("jobs/job-a/1/result") is None


class Leaping(asyncio.SelectorEventLoop):
    """An event loop whose clock a test moves on, so that nobody waits."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def left_behind(folder: Path) -> list[str]:
    """Files of the blob store below its folder, and what a process has open there or has open without a name."""
    opened = [link for fd in os.listdir("/proc/self/fd") if "(deleted)" in (link := _link(fd)) and "/memfd:" not in link]
    return [str(file) for file in (folder / "blobs").rglob("*") if file.is_file()] + opened


def at_last_left_behind(folder: Path, expected: list[str]) -> list[str]:
    """A thread that has just written may hold the file for a moment longer, and so may a traceback that has not been collected."""
    for _ in range(500):
        if expected == left_behind(folder):
            break
        gc.collect()
        time.sleep(0.01)
    return left_behind(folder)


def _link(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize("size", [3, transfers.BLOCK + 3])
def test_a_slow_body_goes_on_as_long_as_something_comes(gateway: Gateway, size: int) -> None:
    """A large function over a thin line is no fault, however long it takes as a whole."""
    with asyncio.Runner(loop_factory=Leaping) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Leaping)
        events = iter([*(piece(b"x" * size) for _ in range(9)), piece(b"end", more=False)])

        async def receive() -> dict[str, Any]:
            loop.ahead += 40
            await asyncio.sleep(0)
            return next(events)

        assert 201 == put(gateway, runner, receive)[0]
    assert b"x" * size * 9 + b"end" == b"".join(gateway.house.blobs.get("jobs/job-a/1/result"))


@pytest.mark.parametrize("size", [3, transfers.BLOCK + 3])
def test_a_body_of_which_nothing_comes_any_more_is_a_408_and_leaves_nothing(gateway: Gateway, size: int) -> None:
    """Whoever sent it learns that nothing is kept, and what to do."""
    before = left_behind(gateway.folder)
    with asyncio.Runner(loop_factory=Leaping) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Leaping)
        events = iter([piece(b"x" * size)])

        async def receive() -> dict[str, Any]:
            event = next(events, None)
            if event is None:
                loop.ahead += 46
                await asyncio.Event().wait()
            return event or {}

        status, problem = put(gateway, runner, receive)
    assert (408, "/problems/too-silent", 408) == (status, problem["type"], problem["status"])
    assert f"45 seconds, after {size} bytes; nothing of it was kept" in problem["detail"]
    assert "Send it again" in problem["remedy"]
    assert before == at_last_left_behind(gateway.folder, before)


def test_clients_that_have_fallen_silent_are_in_nobodys_way(gateway: Gateway) -> None:
    """Twice as many as there are threads for uploads; and each of them goes on when it has something to send."""

    async def stalled(begun: list[int], go: asyncio.Event) -> AsyncIterator[bytes]:
        yield DATA
        begun.append(1)
        await go.wait()
        yield DATA

    async def run(urls: list[str]) -> list[int]:
        begun: list[int] = []
        go = asyncio.Event()
        waiting = [asyncio.ensure_future(gateway.client.request("PUT", url, content=stalled(begun, go))) for url in urls[1:]]
        await until(lambda: len(begun) == len(waiting))
        async with asyncio.timeout(30):  # of the 45 after which they would be given up
            other = await gateway.client.request("PUT", urls[0], content=DATA)
        go.set()
        return [other.status_code, *(answer.status_code for answer in await asyncio.gather(*waiting))]

    expires = gateway.house.clock.now() + Span.of(minutes=1)
    urls = [gateway.house.blobs.grant_write(f"jobs/job-{n}/1/", 1_000_000, expires).url.replace("{name}", "result") for n in range(33)]
    assert [201] * 33 == gateway.run(run([url.removeprefix("http://gateway.internal:8200") for url in urls]))
    assert DATA * 2 == b"".join(gateway.house.blobs.get("jobs/job-32/1/result"))


def test_a_disk_that_takes_no_more_ends_the_request(gateway: Gateway) -> None:
    """What still comes must not be read into nowhere."""
    closed: list[int] = []

    async def source() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"x" * transfers.BLOCK
        finally:
            closed.append(1)

    async def run() -> None:
        arriving = source()
        with pytest.raises(Unavailable, match="the gateway's disk"):
            await transfers.feed(arriving, Pool("test", 1, 60), lambda data: None, gateway.folder / "none")
        await arriving.aclose()

    gateway.run(run())
    assert [1] == closed
