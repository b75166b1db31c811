"""Closing: final charge, hold, manifest, terminal phase; each step may be taken twice, and any of them may wait."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from attrs import evolve

from core.charges import cost, final_charges
from core.close import close
from core.manifest import manifest_key
from ports.credits import Charge, ChargeAnswer, ChargeState, HoldState, user_account
from ports.errors import Conflict, Unavailable
from ports.units import Credits, Span
from ports.workloads import CHARGED, HOLD_VOIDED, RESULT_STORED, Job, Phase
from tests.memory.credits import MemoryCredits
from tests.simulation.actions import Action
from tests.simulation.faults import Crash, Mode
from tests.simulation.stage import Stage
from tests.simulation.world import TERMS


def closing(stage: Stage, ran: int = 90_000) -> Job:
    """A job that has ended, is stored, and is not settled."""
    job = stage.running()
    stage.clock.ms += ran
    stage.end(job)
    stage.uploaded(job)
    stage.faults.down |= {"credits", "blobs"}
    stage.rounds(3)
    stage.faults.down.clear()
    found = stage.job(job)
    assert (Phase.CLOSING, True) == (found.status.phase, found.status.holds(RESULT_STORED))
    return found


def test_closing_posts_the_closed_form_gives_the_hold_back_and_writes_the_manifest() -> None:
    stage = Stage()
    job = closing(stage)
    done = close(stage.house, job)
    run = done.status.run
    assert run is not None
    assert (Phase.COMPLETED, cost(run.price, Span(90_000))) == (done.status.phase, done.status.charged)
    assert done.status.holds(CHARGED)
    assert done.status.holds(HOLD_VOIDED)
    assert Credits(0) == stage.money.account("user:ann").held
    told = json.loads(b"".join(stage.blobs.get(manifest_key(job.id))))
    assert ("Completed", 1, 90_000, done.status.charged.micro) == (told["phase"], told["attempt"], told["ran"], told["charged"])


def test_ticks_before_it_change_nothing_about_the_final_total() -> None:
    """Whenever they fall."""
    totals = []
    for ticks in ((), (1,), (10, 20, 30, 45), tuple(range(1, 90, 7))):
        stage = Stage()
        job = stage.running()
        for second in range(90):
            stage.clock.ms += 1_000
            stage.rounds(1)
            if second in ticks:
                stage._tick(Action("tick"))
        stage.completed(job)
        totals.append(stage.job(job).status.charged)
    assert {totals[0]} == set(totals)


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER, Mode.LOST, Mode.REFUSED])
def test_a_close_that_died_anywhere_charges_once_and_ends_in_the_same_way(mode: Mode) -> None:
    for at in range(1, 10):
        stage = Stage()
        job = closing(stage)
        stage.faults.fuse, stage.faults.blows = at, mode
        try:
            close(stage.house, job)
        except (Crash, Unavailable):
            stage.faults.fuse = 0
            stage.rounds(4, ms=3_000)
        blown, stage.faults.fuse = stage.faults.fuse == 0, 0
        status = stage.job(job.id).status
        run = status.run
        assert run is not None
        assert (Phase.COMPLETED, cost(run.price, run.ran)) == (status.phase, status.charged)
        assert -cost(run.price, run.ran) == sum_of(stage, user_account("ann"))
        if not blown:
            return
    pytest.fail("it has more steps than this test tries")


def sum_of(stage: Stage, account: str) -> Credits:
    return sum((entry.amount for entry in stage.money._journal if entry.account == account and entry.kind == "charge"), Credits(0))


def test_a_job_whose_result_is_not_stored_yet_stays_as_it_is() -> None:
    """The manifest names the result; and Completed means that it is there."""
    stage = Stage()
    job = stage.running()
    stage.end(job)
    stage.rounds(2)
    before = stage.job(job)
    assert before == close(stage.house, before)
    assert before == stage.job(job)


def test_a_final_charge_that_is_refused_is_an_alarm_and_not_the_end_of_the_world() -> None:
    """The job ends, its hold is given back, and an operator can see that the bill is not what it should be."""
    stage = Stage()
    job = closing(stage)

    class Odd(MemoryCredits):
        def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
            return (ChargeAnswer(ChargeState.REFUSED, Credits(0), Credits(7), "a total is lower than before"),)

    done = close(evolve(stage.house, credits=Odd(stage.clock)), job)
    found = done.status.condition(CHARGED)
    assert found is not None
    assert ("Refused", "a total is lower than before") == (found.reason, found.message)
    assert (Phase.COMPLETED, Credits(7)) == (done.status.phase, done.status.charged)


def test_a_hold_that_was_given_back_can_not_be_authorised_any_more() -> None:
    """By whoever comes late with the same uid."""
    stage = Stage()
    job = closing(stage)
    close(stage.house, job)
    assert HoldState.CLOSED is stage.money.authorise(job.uid, "user:ann", Credits(1)).state


def test_who_closes_an_object_that_another_one_has_closed_gets_a_conflict_and_changes_nothing() -> None:
    stage = Stage()
    job = closing(stage)
    done = close(stage.house, job)
    with pytest.raises(Conflict):
        close(stage.house, job)
    assert done == stage.job(job.id)


def test_only_what_ran_is_charged() -> None:
    stage = Stage()
    job = stage.submitted()
    stage.rounds(2)
    stage.machines["n0"].kill_process(0)
    stage.machines["n0"].work(0, 0)
    stage.rounds(3)
    assert () == final_charges(stage.job(job))
    stage.ready(job)
    stage.rounds(2)
    stage.clock.ms += 1
    stage.completed(job)
    assert [2] == [charge.run.attempt for charge in final_charges(stage.job(job))]


def test_with_credits_off_it_ends_without_asking_the_credit_service() -> None:
    stage = Stage(terms=evolve(TERMS, credits_enabled=False))
    job = stage.running()
    stage.faults.down.add("credits")
    stage.completed(job)
    found = stage.job(job).status.condition(CHARGED)
    assert found is not None
    assert (Phase.COMPLETED, "NotBilled") == (stage.phase(job), found.reason)


def test_the_final_charge_is_told_to_whoever_meters_once() -> None:
    """Whoever bills by usage events alone would miss what ran since the last tick."""
    stage = Stage()
    job = closing(stage)
    run = job.status.run
    assert run is not None
    stage.faults.down.add("metering")
    with pytest.raises(Unavailable):
        close(stage.house, job)
    assert Credits(0) == stage.money.account("user:ann").held, "nobody's credits wait for a receiver of events"
    stage.faults.down.clear()
    close(stage.house, job)
    finals = [usage for usage in stage.metering.recorded() if usage.kind == "final"]
    assert [(f"{job.uid}/{run.id}/final/90000", Span(90_000), cost(run.price, Span(90_000)))] == [
        (usage.id, usage.ran, usage.total) for usage in finals
    ]
