"""A log is followed live: every byte once, also over broken connections, and the stream ends with its job."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from attrs import frozen
from gridweave.jobs import Job

from tests.e2e.rig import Rig, User


@frozen
class Event:
    kind: str
    id: str
    data: dict[str, Any]

    @property
    def bytes(self) -> bytes:
        return base64.b64decode(self.data["base64"]) if "base64" in self.data else str(self.data.get("text", "")).encode()


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Server-sent events, as the standard says to read them. Comments are left out."""
    said: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(":")
            said[name] = value.removeprefix(" ")
        elif said:
            yield Event(said.get("event", "message"), said.get("id", ""), json.loads(said["data"]))
            said = {}


def follow(user: User, job: Job, last: str | None = None, stop_after: int = 10**9) -> list[Event]:
    """The events from `last` on; hangs up after so many of the log."""
    seen: list[Event] = []
    headers = {} if last is None else {"Last-Event-ID": last}
    with user.direct.stream("GET", f"/v1/jobs/{job.id}/logs", params={"follow": "true"}, headers=headers) as said:
        assert said.headers["content-type"].startswith("text/event-stream")
        for event in events(said.iter_lines()):
            seen.append(event)
            if sum(each.kind == "log" for each in seen) >= stop_after:
                break
    return seen


def slow(lines: int) -> None:
    import time

    for number in range(lines):
        print(f"line {number} é", flush=True)
        time.sleep(0.02)


EXPECTED = "".join(f"line {number} é\n" for number in range(60)).encode()


def test_a_log_is_followed_while_the_job_runs_and_ends_with_it(rig: Rig) -> None:
    """A stream that stays open after the end looks like a job that hangs."""
    user = rig.user()
    job = user.spawn(slow, 60)
    seen = follow(user, job)
    assert EXPECTED == b"".join(event.bytes for event in seen if event.kind == "log")
    assert len([event for event in seen if event.kind == "log"]) > 1, "it came in pieces, while the job ran"
    end = seen[-1]
    assert ("end", {"phase": "Completed", "reason": "Returned"}, str(len(EXPECTED))) == (end.kind, end.data, end.id)
    phases = [event.data["phase"] for event in seen if event.kind == "state"]
    assert "Running" in phases
    assert phases == [phase for at, phase in enumerate(phases) if at == 0 or phase != phases[at - 1] or phase in ("Pending", "Allocated")]


def test_whoever_comes_back_with_the_last_id_misses_nothing_and_gets_nothing_twice(rig: Rig) -> None:
    """Connections break; logs must not."""
    user = rig.user()
    job = user.spawn(slow, 60)
    read, last = b"", None
    for _ in range(200):
        seen = follow(user, job, last, stop_after=2)
        read += b"".join(event.bytes for event in seen if event.kind == "log")
        ids = [event.id for event in seen if event.kind in ("log", "end")]
        last = ids[-1] if ids else last
        assert str(len(read)) == last
        if seen[-1].kind == "end":
            break
    assert EXPECTED == read


def test_an_ended_job_is_followed_from_any_byte(rig: Rig) -> None:
    """A browser that slept over night comes back in the morning."""
    user = rig.user()
    job = user.spawn(slow, 10)
    user.ended(job)
    whole = user.log(job)
    for offset in (0, 1, 7, len(whole) - 1, len(whole)):
        seen = follow(user, job, str(offset))
        assert whole[offset:] == b"".join(event.bytes for event in seen if event.kind == "log")
        assert "end" == seen[-1].kind


def test_several_followers_each_get_all_of_it(rig: Rig) -> None:
    """A team watches one training."""
    user = rig.user()
    job = user.spawn(slow, 60)
    user.running(job)
    with ThreadPoolExecutor(5) as pool:
        read = list(pool.map(lambda _: b"".join(job.log_bytes(follow=True)), range(5)))
    assert [EXPECTED] * 5 == read


def test_a_cancelled_jobs_stream_ends_and_says_so(rig: Rig) -> None:
    """The reader need not ask why nothing comes any more."""
    user = rig.user()
    job = user.spawn(slow, 100_000)
    user.running(job)
    job.cancel()
    seen = follow(user, job)
    assert ("end", "Cancelled") == (seen[-1].kind, seen[-1].data["phase"])


def test_a_waiting_jobs_stream_tells_what_it_waits_for(rig: Rig) -> None:
    """Silence for an hour is no answer."""
    user = rig.user()
    hold = user.hold(owner="provider", vram="1GB", gpus=2, exclusive=True)
    job = user.spawn(slow, 1, owner="provider", vram="24GB")
    with user.direct.stream("GET", f"/v1/jobs/{job.id}/logs", params={"follow": "true"}) as said:
        coming = events(said.iter_lines())
        state = next(event.data for event in coming if event.kind == "state" and event.data["waiting"])
        assert ("Pending", 1) == (state["phase"], state["position"])
        user.release(hold)
        assert "end" == [event.kind for event in coming][-1]


@pytest.mark.parametrize("last", ["-1", "x", "1.5", "9" * 30, ""])
def test_a_last_id_that_is_none_is_refused(rig: Rig, last: str) -> None:
    """Starting from 0 instead would repeat everything."""
    user = rig.user()
    job = user.spawn(slow, 1)
    said = httpx.get(
        f"{rig.gateway.url}/v1/jobs/{job.id}/logs",
        params={"follow": "true"},
        headers={**user.direct.headers, "Last-Event-ID": last},
        timeout=30,
    )
    assert (400, "Last-Event-ID") == (said.status_code, said.json()["field"])
    user.ended(job)
