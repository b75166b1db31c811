"""A dry run: what submit would cost and hold, and where it would go now. Nothing is written."""

from __future__ import annotations

import pytest

from core.callers import Caller, Plan
from core.estimate import Estimate, estimate
from ports.errors import NeverFits, Refused
from ports.units import Credits, Mib
from ports.workloads import Ask
from tests.simulation.stage import ONE_NODE, Stage
from tests.simulation.world import GB

MIXED = (*ONE_NODE, ("n5", "provider:acme", "A100", 40 * GB, 1))


def asked(stage: Stage, caller: Caller | None = None, gb: int = 8, **more: object) -> Estimate:
    return estimate(stage.house, caller or Caller("ann"), Ask(Mib(gb * GB), **more), stage.fleet())  # type: ignore[arg-type]


def test_it_says_what_submit_will_hold_and_where_it_would_go() -> None:
    stage = Stage()
    found = asked(stage)
    assert found.placement is not None
    assert ("n0", 8 * GB) == (found.placement[0].node, found.placement[0].mib.n)
    assert (True, "", "") == (found.affordable, found.unaffordable, found.reason)
    before = stage.jobs.changes("").cursor
    made = stage.hand_in(Caller("ann"), stage.request())
    assert (found.rate, found.hold) == (made.rate, made.job.spec.hold)
    assert before != stage.jobs.changes("").cursor


def test_it_writes_nothing() -> None:
    stage = Stage()
    before = (stage.jobs.changes("").cursor, stage.records.list(), len(stage.money._journal), dict(stage.money._holds))
    asked(stage)
    assert before == (stage.jobs.changes("").cursor, stage.records.list(), len(stage.money._journal), dict(stage.money._holds))
    assert 40 == stage.free("n0")


def test_the_hold_is_of_the_dearest_pool_and_the_placed_rate_of_the_one_it_would_get() -> None:
    stage = Stage(MIXED)
    found = asked(stage, stage.user("pat", plan=Plan.PAID))
    assert found.placed_rate is not None
    assert found.placed_rate.fraction <= found.rate.fraction
    assert ("providers", "org") == found.pools


def test_no_room_says_how_much_is_missing() -> None:
    stage = Stage()
    stage.running(30)
    stage.running(30)
    found = asked(stage, gb=20)
    assert (None, None, Mib(10 * GB)) == (found.placement, found.placed_rate, found.short_by)
    assert "the most that one has free is 10240 MiB" in found.reason


def test_what_is_in_quarantine_is_not_offered() -> None:
    """Else it promises what the scheduler won't give."""
    stage = Stage()
    stage.running(40)
    stage.machines["n0"].connected = False
    stage.rounds(25, ms=5_000)
    stage.machines["n0"].connected = True
    stage.rounds(1)
    assert 0 == stage.free("n0")
    found = asked(stage, gb=40)
    assert found.placement is not None
    assert 1 == found.placement[0].gpu
    fleet = stage.fleet().nodes[0]
    assert [(0, 40 * GB), (40 * GB, 0)] == [(gpu.free.n, gpu.quarantined.n) for gpu in fleet.gpus]


def test_vram_that_is_booked_and_in_quarantine_for_the_same_run_counts_once() -> None:
    """Between the record's write and the object's."""
    stage = Stage()
    job = stage.running(10)
    run = stage.job(job).status.runs[0]
    for node in stage.term.scheduler.roster.quarantine(run.id, run.placement):
        stage.term.scheduler.roster.save(node)
    gpu = stage.fleet().nodes[0].gpus[0]
    assert (30 * GB, 10 * GB, 0) == (gpu.free.n, gpu.booked.n, gpu.quarantined.n)


def test_want_of_money_is_an_answer_and_not_an_error() -> None:
    stage = Stage()
    found = asked(stage, stage.user("poor", credits=0))
    assert (False, Credits(0)) == (found.affordable, found.balance)
    assert "credits set aside, and 0.000000 are available. Top up" in found.unaffordable
    assert found.placement is not None


def test_open_holds_are_not_spent_twice() -> None:
    stage = Stage()
    poor = stage.user("poor", credits=1)
    stage.money.authorise("elsewhere", "user:poor", Credits(999_999))
    assert Credits(1) == asked(stage, poor).available


def test_it_refuses_what_submit_would_refuse() -> None:
    stage = Stage()
    with pytest.raises(NeverFits):
        asked(stage, gb=80)
    with pytest.raises(Refused):
        asked(stage, owner="provider:acme")


def test_on_ones_own_hardware_nothing_is_held_or_charged() -> None:
    stage = Stage(MIXED)
    found = asked(stage, Caller("acme", plan=Plan.PAID), owner="self_host")
    assert (Credits(0), True) == (found.hold, found.affordable)
    assert found.placed_rate is not None
    assert 0 == found.placed_rate.fraction
