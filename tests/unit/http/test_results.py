"""Results over HTTP: waiting, outcome, ranges."""

from __future__ import annotations

import asyncio
import hashlib

import attrs
import pytest
from gridweave_agent.ending import Seen, classify

from core import lifecycle
from ports.units import Credits, Span
from ports.workloads import Exit, ExitKind, Phase
from tests.unit.http.conftest import ALICE, Gateway, until


def test_a_result_arrives_as_its_bytes_with_its_digest(gateway: Gateway) -> None:
    """The gateway must never look inside: even what is no pickle passes."""
    job = gateway.submit()
    gateway.start(job)
    data = b"\x80\x05canary" * 100_000
    gateway.finish(job, data)
    answer = gateway.get(f"/v1/jobs/{job.id}/result")
    assert (200, data, "returned") == (answer.status_code, answer.content, answer.headers["x-gridweave-outcome"])
    assert (f'"{hashlib.sha256(data).hexdigest()}"', str(len(data))) == (answer.headers["etag"], answer.headers["content-length"])


def test_an_exception_is_a_result_too(gateway: Gateway) -> None:
    """The client raises it; the job is Failed all the same."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, b"exception", raised=True)
    answer = gateway.get(f"/v1/jobs/{job.id}/result")
    assert (200, "raised", b"exception") == (answer.status_code, answer.headers["x-gridweave-outcome"], answer.content)


@pytest.mark.parametrize(
    ("header", "status", "content", "range_said"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=8-", 206, b"89", "bytes 8-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=5-99", 206, b"56789", "bytes 5-9/10"),
        ("bytes=0-1,4-5", 200, b"0123456789", None),
        ("lines=0-1", 200, b"0123456789", None),
        ("bytes=x-1", 200, b"0123456789", None),
        ("bytes=10-", 416, None, "bytes */10"),
        ("bytes=5-2", 416, None, "bytes */10"),
    ],
)
def test_ranges_are_honoured(gateway: Gateway, header: str, status: int, content: bytes | None, range_said: str | None) -> None:
    """A download that broke at 500 MiB goes on from there."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, b"0123456789")
    answer = gateway.get(f"/v1/jobs/{job.id}/result", ALICE | {"Range": header})
    assert (status, range_said) == (answer.status_code, answer.headers.get("content-range"))
    if content is not None:
        assert content == answer.content


def test_a_known_result_is_not_sent_again(gateway: Gateway) -> None:
    """If-None-Match saves half a gigabyte; If-Range never mixes two results."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, b"0123456789")
    etag = gateway.get(f"/v1/jobs/{job.id}/result").headers["etag"]
    known = gateway.get(f"/v1/jobs/{job.id}/result", ALICE | {"If-None-Match": etag})
    assert (304, b"") == (known.status_code, known.content)
    matching = gateway.get(f"/v1/jobs/{job.id}/result", ALICE | {"Range": "bytes=2-3", "If-Range": etag})
    other = gateway.get(f"/v1/jobs/{job.id}/result", ALICE | {"Range": "bytes=2-3", "If-Range": '"other"'})
    assert (b"23", b"0123456789") == (matching.content, other.content)


def test_a_job_that_has_not_ended_answers_with_its_status(gateway: Gateway) -> None:
    """202: come back."""
    job = gateway.submit()
    gateway.start(job)
    answer = gateway.get(f"/v1/jobs/{job.id}/result")
    assert (202, "Running") == (answer.status_code, answer.json()["phase"])


def test_a_job_without_a_result_says_how_it_ended(gateway: Gateway) -> None:
    """The SDK raises from this: phase, reason and exit."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, None, log=b"Killed\n")
    answer = gateway.get(f"/v1/jobs/{job.id}/result")
    problem = answer.json()
    assert (409, "/problems/no-result", "Failed", "Signalled", "SIGKILL") == (
        answer.status_code,
        problem["type"],
        problem["phase"],
        problem["reason"],
        problem["exit"]["signal"],
    )


def test_a_cancelled_job_has_no_result_even_if_it_had_returned(gateway: Gateway) -> None:
    """One terminal phase: what the user cancelled does not return after all."""
    job = gateway.submit()
    gateway.start(job)
    gateway.finish(job, b"late", outcome=Phase.CANCELLED)
    answer = gateway.get(f"/v1/jobs/{job.id}/result")
    assert (409, "Cancelled") == (answer.status_code, answer.json()["phase"])


def test_waiting_ends_when_the_job_does(gateway: Gateway) -> None:
    """Woken by the change, not by a poll."""
    job = gateway.submit()
    gateway.start(job)

    async def both() -> bytes:
        watch = gateway.services.watch
        watch._loop = asyncio.get_running_loop()
        asking = asyncio.ensure_future(gateway.client.get(f"/v1/jobs/{job.id}/result?wait=300", headers=ALICE, timeout=None))
        await until(lambda: bool(watch._signals))
        await asyncio.to_thread(gateway.finish, job, b"done")
        return (await asking).content

    assert b"done" == gateway.run(both())


def test_a_stopping_gateway_lets_nobody_wait(gateway: Gateway) -> None:
    """SIGTERM must not take five minutes."""
    job = gateway.submit()

    async def both() -> int:
        asking = asyncio.ensure_future(gateway.client.get(f"/v1/jobs/{job.id}/result?wait=300", headers=ALICE, timeout=None))
        await until(lambda: bool(gateway.services.watch._signals))
        gateway.services.stop()
        return (await asking).status_code

    assert 202 == gateway.run(both())


def test_an_exit_of_zero_without_a_result_is_said_to_be_one(gateway: Gateway) -> None:
    """ "Failed: it exited with code 0" reads like success; status and result say what is missing."""
    job = gateway.submit()
    run = gateway.start(job)
    how = classify(Seen(started=True, status=0))
    said = Exit(ExitKind(how.kind), code=how.code, message=how.message)
    now = gateway.house.clock.now()
    gateway.change(job, lambda status: lifecycle.ended(attrs.evolve(job, status=status), said, Span(1), now))
    gateway.change(job, lambda status: lifecycle.nothing_to_store(status, "NoResult", now))
    gateway.change(job, lambda status: lifecycle.closed(status, Credits(0), now, billed=False))
    status = gateway.get(f"/v1/jobs/{job.id}/status").json()
    result = gateway.get(f"/v1/jobs/{job.id}/result")
    assert (run.id.workload, "Failed", "Exited") == (status["id"], status["phase"], status["reason"])
    assert "no result came" in status["message"]
    assert (409, 0) == (result.status_code, result.json()["exit"]["code"])
    assert "no result came" in result.json()["detail"]
