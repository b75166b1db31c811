"""A restart over many unfinished jobs: what it reads grows by pages of the store, and by nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from core.each_job import AT_ONCE
from ports.units import Instant, Mib
from ports.workloads import FUNDED, Ask, BlobRef, ConditionStatus, Job, JobSpec, JobStatus, Phase
from tests.simulation.actions import Action
from tests.simulation.stage import TWO_NODES, Stage

JOBS = 10_000


def store(stage: Stage, count: int) -> None:
    """Funded jobs that wait for a GPU which is not there."""
    nothing, ask = BlobRef("0" * 64, 0), Ask(Mib(80 * 1024), model="H100")
    for number in range(count):
        at = Instant(1_700_000_000_000 + number)
        status = JobStatus().with_condition(FUNDED, ConditionStatus.TRUE, at, "NotBilled")
        stage.jobs.create(Job(f"job-{number:020d}", f"uid-{number}", at, JobSpec("ann", "free", "waits", ask, nothing, nothing), status))


def counted(stage: Stage, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> Counter[str]:
    calls: Counter[str] = Counter()
    right = stage.faults.io

    def io(self: Any, what: str, effect: Callable[[], Any]) -> Any:
        calls[what] += 1
        return right(what, effect)

    with monkeypatch.context() as patch:
        patch.setattr(type(stage.faults), "io", io)
        act()
    return calls


def test_ten_thousand_unfinished_jobs_are_taken_up_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a gateway that was killed on a busy day would not be back on that day."""
    stage = Stage(TWO_NODES, started=False)
    store(stage, JOBS)
    begun = counted(stage, monkeypatch, lambda: stage._start(Action("start")))
    assert stage.process is not None
    assert JOBS == stage.term.scheduler.unfinished
    assert {"store.list": JOBS // AT_ONCE, "store.nodes": 1} == {what: begun[what] for what in ("store.list", "store.nodes")}
    assert sum(begun.values()) <= JOBS // AT_ONCE + 6
    asked = counted(stage, monkeypatch, lambda: [stage.term.poll(name) for name in stage.machines])
    assert {"agent.hello": len(stage.machines)} == dict(asked)


def test_after_it_new_work_runs_and_those_who_wait_are_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(TWO_NODES, started=False)
    store(stage, 1_000)
    stage._start(Action("start"))
    stage._beat(Action("beat"))  # each is told once why it waits
    fresh = stage.submitted()
    calls = counted(stage, monkeypatch, lambda: [stage._beat(Action("beat")) for _ in range(2)])
    assert Phase.ALLOCATED is stage.phase(fresh)
    assert sum(calls.values()) < 40
