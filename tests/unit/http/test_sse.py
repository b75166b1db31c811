"""Logs by offset, and followed as server-sent events."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from functools import partial
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ports.workloads import Phase
from runtimes.http.followers import KEPT, Feeds
from runtimes.http.sse import Follower, Splitter
from tests.unit.http.conftest import ALICE, Gateway, until

Event = tuple[str, int | None, dict[str, Any]]


def parsed(text: str) -> list[Event]:
    """Events of a stream: name, id, data. Comments are left out."""
    found: list[Event] = []
    for block in re.split(r"\n\n", text):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((fields["event"], int(fields["id"]) if "id" in fields else None, json.loads(fields["data"])))
    return found


def bytes_of(events: list[Event]) -> bytes:
    pieces = [data for name, _, data in events if name == "log"]
    return b"".join(base64.b64decode(data["base64"]) if "base64" in data else data["text"].encode() for data in pieces)


# ---------------------------------------------------------------- splitting


@given(st.lists(st.one_of(st.binary(max_size=12), st.text(max_size=6).map(str.encode)), max_size=8))
def test_whatever_is_logged_arrives_byte_for_byte(pieces: list[bytes]) -> None:
    """A progress bar, a binary dump, half a character: the log is the user's."""
    splitter, seen, counted = Splitter(), b"", 0
    for at, piece in enumerate([*pieces, b""]):
        for payload, size in splitter.feed(piece, at == len(pieces)):
            data = base64.b64decode(payload["base64"]) if "base64" in payload else payload["text"].encode()
            assert size == len(data)
            seen, counted = seen + data, counted + size
    assert b"".join(pieces) == seen
    assert len(seen) == counted


@given(st.text(min_size=1, max_size=20), st.data())
def test_a_text_is_never_cut_inside_a_character(text: str, data: st.DataObject) -> None:
    """A viewer would show a replacement character where the piece ended."""
    whole = text.encode()
    cut = data.draw(st.integers(0, len(whole)))
    splitter = Splitter()
    payloads = [payload for piece, last in ((whole[:cut], False), (whole[cut:], True)) for payload, _ in splitter.feed(piece, last)]
    assert text == "".join(payload["text"] for payload in payloads)


# ---------------------------------------------------------------- by offset


def test_a_live_log_is_read_from_the_agent(gateway: Gateway) -> None:
    """The log is there while it runs, before any chunk is stored."""
    job = gateway.submit()
    run = gateway.start(job)
    gateway.agents.write(run.id, b"one\ntwo\n")
    answer = gateway.get(f"/v1/jobs/{job.id}/logs?offset=4&limit=2")
    assert (b"tw", "6", "false") == (
        answer.content,
        answer.headers["x-gridweave-log-next"],
        answer.headers["x-gridweave-log-complete"],
    )


def test_a_stored_log_is_read_from_its_chunks(gateway: Gateway) -> None:
    """The agent forgets; the log stays. Offsets go on over the seams."""
    job = gateway.submit()
    gateway.start(job)
    for n, chunk in enumerate((b"abc", b"", b"defgh", b"i")):
        gateway.house.blobs.put(f"jobs/{job.id}/1/logs/0/{n:09d}", [chunk])
    gateway.finish(job, b"x")
    whole = b"abcdefghi"
    for offset in range(len(whole) + 2):
        for limit in (1, 2, 4, 100):
            answer = gateway.get(f"/v1/jobs/{job.id}/logs?offset={offset}&limit={limit}")
            end = offset + len(whole[offset : offset + limit])
            assert (whole[offset : offset + limit], str(end), "true" if end >= len(whole) else "false") == (
                answer.content,
                answer.headers["x-gridweave-log-next"],
                answer.headers["x-gridweave-log-complete"],
            )
    assert 0 == gateway.agents.reads


def test_a_log_without_an_agent_gives_what_is_stored(gateway: Gateway) -> None:
    """A node that can't be asked now: the chunks so far, up to the first gap, and "more may come"."""
    job = gateway.submit()
    gateway.start(job)
    for n in (0, 1, 3):
        gateway.house.blobs.put(f"jobs/{job.id}/1/logs/0/{n:09d}", [b"%d" % n])
    answer = gateway.get(f"/v1/jobs/{job.id}/logs")
    assert (b"01", "false") == (answer.content, answer.headers["x-gridweave-log-complete"])


def test_a_job_that_never_ran_has_an_empty_log(gateway: Gateway) -> None:
    """No special case for the client."""
    job = gateway.submit()
    answer = gateway.get(f"/v1/jobs/{job.id}/logs")
    assert (200, b"", "false") == (answer.status_code, answer.content, answer.headers["x-gridweave-log-complete"])


# ---------------------------------------------------------------- followed


def test_an_ended_job_is_followed_to_its_end(gateway: Gateway) -> None:
    """Whoever comes late gets all of it and is let go."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, b"x", log="größer\r50%\u2028".encode() + b"\xff\n")
    answer = gateway.get(f"/v1/jobs/{job.id}/logs?follow=true")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = parsed(answer.text)
    assert ["state", "log", "log", "end"] == [name for name, _, _ in events]
    assert "größer\r50%\u2028".encode() + b"\xff\n" == bytes_of(events)
    assert ("end", 17, {"phase": "Completed", "reason": "Returned"}) == events[-1]


@pytest.mark.parametrize("header", [True, False])
def test_a_follower_who_comes_back_misses_nothing(gateway: Gateway, header: bool) -> None:
    """Every id may be resumed after, wherever the stream broke."""
    job = gateway.submit()
    gateway.start(job)
    log = "zwölf Boxkämpfer\n".encode() * 3
    gateway.finish(job, b"x", log=log)
    for offset in (0, 1, 7, len(log) - 1, len(log)):
        path = f"/v1/jobs/{job.id}/logs?follow=true" + ("" if header else f"&offset={offset}")
        events = parsed(gateway.get(path, ALICE | ({"Last-Event-ID": str(offset)} if header else {})).text)
        assert log[offset:] == bytes_of(events)
        assert len(log) == events[-1][1]


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "9" * 20])
def test_a_malformed_last_event_id_is_refused(gateway: Gateway, value: str) -> None:
    """Starting over would print the log twice."""
    job = gateway.submit()
    answer = gateway.get(f"/v1/jobs/{job.id}/logs?follow=true", ALICE | {"Last-Event-ID": value})
    assert (400, "Last-Event-ID") == (answer.status_code, answer.json()["field"])


async def collect(gateway: Gateway, follower: Follower) -> list[Event]:
    found = []
    async for event in follower.events():
        found += parsed(event.serialize().decode())
    return found


def test_a_job_is_followed_through_its_life(gateway: Gateway) -> None:
    """State on change, log as it comes, end: what `square.remote(7)` shows."""
    job = gateway.submit()

    async def life() -> list[Event]:
        services = gateway.services
        services.watch._loop = asyncio.get_running_loop()
        feeds = Feeds(services)

        async def read() -> Any:
            return gateway.house.workloads.get(job.id)

        following = asyncio.ensure_future(collect(gateway, Follower(services, feeds, job, 0, read)))
        await until(lambda: bool(services.watch._signals))
        run = await asyncio.to_thread(gateway.start, job)
        gateway.agents.write(run.id, b"squaring ")
        await until(lambda: bool(gateway.agents.reads))
        gateway.agents.write(run.id, b"7\n", last=True)
        await asyncio.to_thread(gateway.finish, job, b"49", log=b"squaring 7\n")
        return await following

    events = gateway.run(life())
    phases = [data["phase"] for name, _, data in events if name == "state"]
    assert ("Pending", "Completed") == (phases[0], phases[-1])
    assert phases == [phase for at, phase in enumerate(phases) if at == 0 or phases[at - 1] != phase]
    assert b"squaring 7\n" == bytes_of(events)
    assert ("end", 11, {"phase": "Completed", "reason": "Returned"}) == events[-1]


def test_many_followers_share_one_upstream(gateway: Gateway) -> None:
    """A hundred viewers of one log must not be a hundred polls of its node."""
    job = gateway.submit()
    run = gateway.start(job)
    gateway.agents.write(run.id, b"")

    def read_again(before: int) -> bool:
        return gateway.agents.reads > before

    async def crowd() -> list[list[Event]]:
        services = gateway.services
        services.watch._loop = asyncio.get_running_loop()
        feeds = Feeds(services)

        async def read() -> Any:
            return gateway.house.workloads.get(job.id)

        stored = gateway.house.workloads.get(job.id)
        assert stored is not None
        followers = [asyncio.ensure_future(collect(gateway, Follower(services, feeds, stored, 0, read))) for _ in range(100)]
        for n in range(10):
            before = gateway.agents.reads
            gateway.agents.write(run.id, b"line %d\n" % n, last=n == 9)
            await until(partial(read_again, before if n < 9 else -1))
        await asyncio.to_thread(gateway.finish, job, b"x", log=b"")
        found = await asyncio.gather(*followers)
        assert 0 == len(feeds)
        return list(found)

    whole = b"".join(b"line %d\n" % n for n in range(10))
    assert [whole] * 100 == [bytes_of(events) for events in gateway.run(crowd())]
    assert gateway.agents.reads <= 2 * 10 + 2


def test_a_slow_follower_costs_no_memory_and_loses_nothing(gateway: Gateway) -> None:
    """What lies behind the kept bytes is read again from its source."""
    job = gateway.submit()
    run = gateway.start(job)
    log = bytes(range(32, 127)) * (5 * KEPT // 95)
    gateway.agents.write(run.id, log, last=True)

    async def race() -> tuple[bytes, int]:
        feeds = Feeds(gateway.services)
        stored = gateway.house.workloads.get(job.id)
        assert stored is not None
        with feeds.open(stored, 0) as feed:
            while not feed.ready(10**9) or feed.head < len(log):
                await feed.more()
            held = len(feed._kept)
            seen = bytearray()
            while len(seen) < len(log):
                seen += (await feed.take(len(seen))).data
            return bytes(seen), held

    seen, held = gateway.run(race())
    assert log == seen
    assert held <= 2 * KEPT + 128 * 1024


def test_a_stopping_gateway_ends_streams_with_an_id_to_resume_from(gateway: Gateway) -> None:
    """SIGTERM: the client reconnects elsewhere and goes on where it was."""
    job = gateway.submit()
    run = gateway.start(job)
    gateway.agents.write(run.id, b"so far\n")

    async def stopped() -> list[Event]:
        services = gateway.services
        services.watch._loop = asyncio.get_running_loop()

        async def read() -> Any:
            return gateway.house.workloads.get(job.id)

        stored = gateway.house.workloads.get(job.id)
        assert stored is not None
        found: list[Event] = []
        async for event in Follower(services, Feeds(services), stored, 0, read).events():
            found += parsed(event.serialize().decode())
            if found[-1][0] == "log":
                services.stop()
        return found

    assert [("state", None), ("log", 7)] == [event[:2] for event in gateway.run(stopped())]


def test_a_quiet_stream_is_pinged(gateway: Gateway) -> None:
    """Proxies cut what is silent, and a client that has gone is noticed."""
    job = gateway.submit()
    run = gateway.start(job)
    gateway.agents.write(run.id, b"")

    async def quiet() -> list[str]:
        async def read() -> Any:
            return gateway.house.workloads.get(job.id)

        stored = gateway.house.workloads.get(job.id)
        assert stored is not None
        found: list[str] = []
        async for event in Follower(gateway.services, Feeds(gateway.services), stored, 0, read, ping_s=0.01).events():
            found.append(event.serialize().decode())
            if len(found) == 3:
                gateway.services.stop()
        return found

    assert [": ping", ": ping"] == [text.strip() for text in gateway.run(quiet())[1:]]


def test_a_waiting_jobs_position_is_told_as_it_moves_up(gateway: Gateway) -> None:
    """Seeing the queue move is what keeps a user from cancelling."""
    first, second = gateway.submit(), gateway.submit()

    async def moved() -> list[int]:
        services = gateway.services
        services.watch._loop = asyncio.get_running_loop()

        async def read() -> Any:
            return gateway.house.workloads.get(second.id)

        positions: list[int] = []
        async for event in Follower(services, Feeds(services), second, 0, read, ping_s=0.01).events():
            for name, _, data in parsed(event.serialize().decode()):
                if name == "state":
                    positions.append(data["position"])
                    if data["position"] == 2:
                        await asyncio.to_thread(gateway.start, first)
            if positions[-1] == 1:
                services.stop()
        return positions

    assert [2, 1] == gateway.run(moved())


def test_the_state_of_a_cancelled_job_ends_the_stream(gateway: Gateway) -> None:
    """A job that never ran ends too."""
    job = gateway.submit()
    for phase in (Phase.CLOSING, Phase.CANCELLED):
        gateway.change(job, partial(attrs.evolve, phase=phase))
    events = parsed(gateway.get(f"/v1/jobs/{job.id}/logs?follow=true").text)
    assert ("end", 0, {"phase": "Cancelled", "reason": ""}) == events[-1]
