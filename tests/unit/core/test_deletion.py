"""An object is deleted at each moment of its job's life: whoever has something of it lets go of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field

from ports.errors import Refused
from ports.workloads import TERMINAL
from tests.simulation.actions import Action
from tests.simulation.faults import Faults
from tests.simulation.invariants import check, check_at_rest
from tests.simulation.stage import Stage


@define
class Axe:
    """Deletes every object, and gives back what was held for it, just before the n-th I/O."""

    stage: Stage
    at: int
    seen: int = field(default=0, init=False)
    fell: bool = field(default=False, init=False)

    def strike(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            for job in self.stage.stored():
                self.fell = True
                self.stage.jobs.delete(job)
                self.stage.money.void(job.uid)


def live(stage: Stage) -> None:
    """From submit to the end, as far as it comes."""
    try:
        stage.submitted()
    except Refused:
        return
    for _ in range(8):
        stage._beat(Action("beat"))
        for machine in stage.machines.values():
            machine.work(0, 0)
        stage._tick(Action("tick"))
        stage.clock.ms += 1_000


def test_delete_against_everything_leaves_nothing_booked_running_or_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit, place, launch, end, close and tick each meet an object that was there a moment ago."""
    right, axe, fell = Faults.io, [Axe(Stage(), 0)], 0

    def io(self: Faults, what: str, effect: Callable[[], Any]) -> Any:
        axe[0].strike()
        return right(self, what, effect)

    monkeypatch.setattr(Faults, "io", io)
    at = 0
    while at < axe[0].seen or at == 0:
        at += 1
        stage = Stage()
        axe[0] = Axe(stage, at)
        live(stage)
        fell += axe[0].fell
        for _ in range(12):
            stage.beat()
            stage.watch_silence()
            check(stage)
        assert all(job.status.phase in TERMINAL for job in stage.stored())
        check_at_rest(stage)
    assert fell > 30
