"""Pools: a dependency that hangs hurts nobody but those who need it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from ports.errors import NotFound, Unavailable
from runtimes.http.pools import Pool
from tests.unit.http.conftest import ALICE, Make, until


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await work()

    asyncio.run(whole())


def test_a_result_and_an_error_pass_as_they_are() -> None:
    """A pool is not seen when all is well."""

    async def work() -> None:
        pool = Pool("x", 2, 10)
        assert 3 == await pool.run(lambda a, b: a + b, 1, 2)

        def fail() -> None:
            raise NotFound("no")

        with pytest.raises(NotFound):
            await pool.run(fail)

    run(work)


def test_a_call_that_hangs_is_given_up_and_keeps_its_place() -> None:
    """Its thread can't be taken back; were its place, threads would pile up without end."""

    async def work() -> None:
        pool, free, calls = Pool("the store", 1, 10), threading.Event(), []

        def hang() -> None:
            calls.append(1)
            free.wait(30)

        with pytest.raises(Unavailable, match="the store is not available: no answer within"):
            await pool.run(hang, deadline_s=0.05)
        with pytest.raises(Unavailable):
            await pool.run(hang, deadline_s=0.05)
        assert [1] == calls
        assert 1 == pool.hung
        free.set()
        await until(lambda: not pool.busy)
        assert 0 == pool.hung
        assert 7 == await pool.run(lambda: 7)

    run(work)


def test_a_full_pool_refuses_at_once() -> None:
    """Whoever would wait behind hundreds had better come back later."""

    async def work() -> None:
        pool, free = Pool("x", 1, 30), threading.Event()
        waiting = [asyncio.ensure_future(pool.run(free.wait, 30)) for _ in range(17)]
        await until(lambda: pool.waiting == 16)
        with pytest.raises(Unavailable, match="too many"):
            await pool.run(lambda: None)
        free.set()
        assert [True] * 17 == await asyncio.gather(*waiting)

    run(work)


def test_a_call_whose_caller_left_the_queue_is_never_made() -> None:
    """A submit that was answered 503 before it began must not happen later behind the client's back."""

    async def work() -> None:
        pool, free, made = Pool("x", 1, 30), threading.Event(), []
        first = asyncio.ensure_future(pool.run(free.wait, 30))
        await until(lambda: pool.busy == 1)
        with pytest.raises(Unavailable):
            await pool.run(lambda: made.append(1), deadline_s=0.05)
        free.set()
        await first
        await until(lambda: not pool.busy and not pool.waiting)
        assert [] == made

    run(work)


def test_a_credit_service_that_hangs_does_not_hold_up_status(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dependency has its own threads."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 100)
    job = gateway.submit()
    free = threading.Event()
    monkeypatch.setattr(type(gateway.house.credits), "account", lambda *_: free.wait(30))

    async def both() -> tuple[int, int]:
        hung = [asyncio.ensure_future(gateway.client.get("/v1/account", headers=ALICE)) for _ in range(20)]
        await until(lambda: gateway.services.pools.credits.busy == 6)
        status = await gateway.client.get(f"/v1/jobs/{job.id}/status", headers=ALICE)
        health = await gateway.client.get("/healthz")
        for each in hung:
            each.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        free.set()
        return status.status_code, health.status_code

    assert (200, 200) == gateway.run(both())
