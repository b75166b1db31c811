"""Everything that waits has an `.aio`."""

from __future__ import annotations

import asyncio

import gridweave as gw
import pytest

from tests.unit.sdk.gateway import Gateway


@gw.function
def square(x: int) -> int:
    print("squaring", x)
    if x < 0:
        raise ValueError(f"negative: {x}")
    return x * x


@gw.function
def forever(x: int) -> int:
    import time

    time.sleep(600 if x else 0)
    return x


def test_a_job_can_be_awaited(gateway: Gateway) -> None:
    """`await job.result.aio()`, and the rest of a job likewise."""

    async def go() -> None:
        job = await square.spawn.aio(7)
        assert 49 == await job.result.aio()
        assert "squaring 7\n" == "".join([text async for text in job.logs.aio(follow=True)])
        assert ["Completed", "Completed"] == [(await job.status.aio())["phase"], (await job.cancel.aio())["phase"]]
        assert 8 == (await square.estimate.aio()).hold

    asyncio.run(go())


def test_a_map_can_be_looped_over_by_async_for(gateway: Gateway) -> None:
    """In order, as without asyncio."""

    async def go() -> list[int]:
        return [each async for each in square.map.aio(range(4), concurrency=2)]

    assert [0, 1, 4, 9] == asyncio.run(go())


def test_cancelling_the_task_of_a_map_cancels_its_jobs(gateway: Gateway) -> None:
    """As leaving the loop does."""

    async def go() -> None:
        first = asyncio.Event()

        async def loop() -> None:
            async for _ in forever.map.aio(range(5), concurrency=3):
                first.set()

        task = asyncio.create_task(loop())
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert {"Completed", "Cancelled"} >= {run.phase for run in gateway.runs.values()}


def test_methods_keep_their_documentation() -> None:
    """`help(job.result)` in a notebook."""
    assert "TimeoutError" in str(gw.Job.result.__doc__)
    assert "TimeoutError" in str(gw.Job("x", gw.Client("http://127.0.0.1:9")).result.__doc__)
