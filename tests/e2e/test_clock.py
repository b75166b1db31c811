"""The wall clock jumps in the middle of a run: nobody pays for it, and nothing waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtimes.clock_offset import OFFSET_FILE
from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import Rig, until
from tests.e2e.walk import restarts

HOUR_MS = 3_600_000


@pytest.fixture
def offset(rig: Rig, tmp_path: Path) -> Iterator[Path]:
    """The file that sets the clock of gateway, scheduler and biller."""
    file = tmp_path / "offset"
    with restarts(rig):
        rig.gateway.kill()
        rig.gateway.settings = {**rig.gateway.settings, OFFSET_FILE: str(file)}
        rig.gateway.start()
        rig.gateway.ready()
        yield file


def works(seconds: float) -> str:
    import time

    for n in range(10):
        print(n, flush=True)
        time.sleep(seconds / 10)
    return "worked"


@pytest.mark.parametrize("jump", [HOUR_MS, -HOUR_MS], ids=["an hour on", "an hour back"])
def test_a_bill_is_exact_whatever_the_wall_clock_does(rig: Rig, offset: Path, jump: int) -> None:
    """A run's time is taken by a clock that can't be set."""
    user = rig.user()
    before = user.balance()
    jobs = [user.spawn(works, 3.0, vram="24GB", owner="org") for _ in range(2)]
    waiting = user.spawn(works, 0.5, vram="80GB", gpus=2, owner="org")  # behind them; there are but two such GPUs
    for job in jobs:
        user.running(job)
    until(lambda: user.client.usage()["entries"][-1]["kind"] == "charge", "a tick")
    offset.write_text(str(jump))
    posted = len(user.client.usage()["entries"])
    until(lambda: len(user.client.usage()["entries"]) > posted + 1, "a tick after the jump")
    offset.write_text(str(-jump))
    seen = [user.ended(job) for job in [*jobs, waiting]]
    for status, gb in zip(seen, (24, 24, 160), strict=True):
        assert "Completed" == status["phase"], status
        assert cost(status, gb) == charged(status)
        assert status["ran_ms"] < HOUR_MS / 2
    assert before.micro - sum(charged(each).micro for each in seen) == user.balance().micro
    assert "0.000000" == user.client.account()["held"]
    assert ["worked"] * 3 == [job.result(timeout=60) for job in [*jobs, waiting]]
    assert b"".join(b"%d\n" % n for n in range(10)) == user.log(jobs[0])
    audited = rig.credits.verify()
    assert audited.sound, audited
