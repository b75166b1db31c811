"""The tick: totals so far of what runs, by what the records say; and whoever has run dry is flagged."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from core.charges import cost, totals
from core.tick import Ticked, tick
from ports.credits import Charge, ChargeAnswer, ChargeState
from ports.errors import Unavailable
from ports.metering import Usage
from ports.units import Credits, Span
from ports.workloads import LOW_BALANCE, Job, Phase, Run
from tests.memory.credits import MemoryCredits
from tests.simulation.faults import Mode
from tests.simulation.stage import TWO_NODES, Stage
from tests.simulation.world import TERMS


def ticked(stage: Stage) -> Ticked:
    return tick(stage.house)


def ran(stage: Stage, ms: int) -> None:
    """So long, and the records say so."""
    stage.clock.ms += ms
    stage.rounds(2, ms=0)


def run_of(job: Job) -> Run:
    assert job.status.run is not None
    return job.status.run


def test_a_tick_posts_the_totals_of_what_the_record_says() -> None:
    stage = Stage()
    job = stage.running()
    ran(stage, 60_000)
    assert Ticked(runs=1, posted=1) == ticked(stage)
    price = run_of(stage.job(job)).price
    assert Credits(4_000_000_000) - cost(price, Span(60_000)) == stage.money.account("user:ann").balance
    assert totals(price, Span(60_000))["org"] == stage.money.account("org").balance


def test_a_second_biller_changes_nothing() -> None:
    stage = Stage()
    stage.running()
    ran(stage, 60_000)
    ticked(stage)
    before = stage.money.account("user:ann").balance
    assert Ticked(runs=1, stale=1) == ticked(stage)
    assert before == stage.money.account("user:ann").balance


def test_an_answer_that_was_lost_costs_nothing() -> None:
    """Unknown is not failed: the same totals are posted again."""
    stage = Stage()
    job = stage.running()
    ran(stage, 60_000)
    stage.faults.armed["credits.charge"] = Mode.LOST
    with pytest.raises(Unavailable):
        ticked(stage)
    assert 1 == ticked(stage).stale
    paid = Credits(4_000_000_000) - stage.money.account("user:ann").balance
    assert cost(run_of(stage.job(job)).price, Span(60_000)) == paid


def test_the_wall_clock_is_nothing_to_a_bill() -> None:
    stage = Stage()
    job = stage.running()
    for jump in (3_600_000, -7_200_000, 3_600_000):
        stage.clock.jumped += jump
        ran(stage, 11_000)
        ticked(stage)
    stage.completed(job)
    status = stage.job(job).status
    assert (Phase.COMPLETED, Span(33_000)) == (status.phase, run_of(stage.job(job)).ran)
    assert cost(run_of(stage.job(job)).price, Span(33_000)) == status.charged


def test_of_a_gang_the_greatest_time_counts_whatever_the_order_of_its_nodes() -> None:
    """A total that falls would be refused, and alarm somebody at night."""
    for late in ("n0", "n1"):
        stage = Stage(TWO_NODES)
        job = stage.running(40, gpus=2, workers=2)
        ran(stage, 20_000)
        stage.machines[late].connected = False
        ran(stage, 20_000)
        assert Ticked(runs=1, posted=1) == ticked(stage)
        paid = Credits(4_000_000_000) - stage.money.account("user:ann").balance
        assert cost(run_of(stage.job(job)).price, Span(40_000)) == paid


def test_who_has_run_dry_is_flagged_and_ended_and_may_owe() -> None:
    """A charge is never cut; but nothing goes on that nobody pays for."""
    stage = Stage()
    poor = stage.user("poor", credits=14)
    job, waits = stage.running(caller=poor), stage.submitted(40, caller=poor, gpus=2)
    ran(stage, 2_000_000)
    assert 2 == ticked(stage).flagged
    assert stage.money.account("user:poor").balance < Credits(0)
    assert stage.job(job).status.holds(LOW_BALANCE)
    stage.rounds(2)
    stage.machines["n0"].work(0, 1)
    stage.uploaded(job)
    stage.rounds(4)
    assert ["BalanceExhausted"] * 2 == [stage.job(each).status.reason for each in (job, waits)]
    assert 0 == ticked(stage).flagged


def test_what_costs_nothing_needs_no_credits_and_only_a_debt_ends_it() -> None:
    """A rate of zero that was given is a zero: its hold of nothing was given too."""
    stage = Stage()
    tariff = stage.house.tariffs.history()[-1]
    free = evolve(tariff, version=tariff.version + 1, base_rate=0, vram_rate=0, org_models={}, effective=stage.clock.now())
    stage.house.tariffs.publish(free)
    poor = stage.user("poor", credits=0)
    job = stage.running(caller=poor)
    ran(stage, 60_000)
    assert Ticked(runs=1, posted=1) == ticked(stage)
    stage.money.set_cap("user:poor", Credits(0))
    ran(stage, 60_000)
    assert 0 == ticked(stage).flagged
    stage.money.post("fix", "correction", {"user:poor": Credits(-1), "issue": Credits(1)})
    ran(stage, 60_000)
    assert 1 == ticked(stage).flagged
    assert stage.job(job).status.holds(LOW_BALANCE)


def test_a_meter_that_is_away_keeps_nobody_from_being_flagged() -> None:
    stage = Stage()
    job = stage.running(caller=stage.user("poor", credits=4))
    ran(stage, 600_000)
    stage.faults.down.add("metering")
    with pytest.raises(Unavailable):
        ticked(stage)
    assert stage.job(job).status.holds(LOW_BALANCE)


def test_a_refused_charge_is_an_alarm_and_no_usage() -> None:
    stage = Stage()
    stage.running()
    ran(stage, 60_000)

    class Odd(MemoryCredits):
        def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
            return (ChargeAnswer(ChargeState.REFUSED, Credits(5), Credits(0), "a total is lower than before"),)

    done = tick(evolve(stage.house, credits=Odd(stage.clock)))
    assert 1 == len(done.refused)
    assert "lower than before" in done.refused[0].why
    assert () == stage.metering.recorded()


def test_usage_says_what_the_run_has_cost_at_that_time_also_when_another_biller_was_ahead() -> None:
    stage = Stage()
    job = stage.running()
    ran(stage, 60_000)
    ticked(stage)
    recorded: tuple[Usage, ...] = stage.metering.recorded()
    assert [(Span(60_000), cost(run_of(stage.job(job)).price, Span(60_000)))] == [(each.ran, each.total) for each in recorded]
    stage.metering._events.clear()
    ticked(stage)
    assert recorded == stage.metering.recorded()


def test_what_has_not_run_yet_and_what_has_ended_is_not_ticked() -> None:
    stage = Stage()
    stage.submitted()
    done = stage.running()
    stage.clock.ms += 1
    stage.completed(done)
    assert Ticked() == ticked(stage)


def test_with_credits_off_a_tick_does_nothing() -> None:
    stage = Stage(terms=evolve(TERMS, credits_enabled=False))
    stage.running()
    ran(stage, 60_000)
    stage.faults.down.add("credits")
    assert Ticked() == ticked(stage)


def test_only_the_nodes_of_a_run_tell_how_long_it_ran() -> None:
    """The record of another may still tell of an ended run of that name, of a job that was made anew since."""
    stage = Stage(TWO_NODES)
    job = stage.running()
    ran(stage, 20_000)
    other = next(name for name in stage.machines if name != stage.placed(job))
    record = stage.records.get(other)
    assert record is not None
    stage.records.put_status(evolve(record, status=evolve(record.status, ran={f"{job}/1": Span(3_600_000)})))
    ticked(stage)
    price = run_of(stage.job(job)).price
    assert Credits(4_000_000_000) - cost(price, Span(20_000)) == stage.money.account("user:ann").balance
