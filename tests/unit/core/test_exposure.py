"""Exposure: while nothing can be charged, a user's new work waits once he has run up more than the limit; what runs goes on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import evolve

from core.charges import cost
from core.close import close
from core.exposure import KEY, WAITS, Standing, standing
from core.tick import tick
from ports.credits import Charge, ChargeAnswer, ChargeState
from ports.errors import Exposed, Unavailable
from ports.units import Credits, Instant, Span
from ports.workloads import Job, Phase
from tests.memory.credits import MemoryCredits
from tests.simulation.stage import Stage
from tests.simulation.world import TERMS

LIMIT = Credits(1_000_000)


def limited(limit: Credits = LIMIT) -> Stage:
    return Stage(terms=evolve(TERMS, exposure_limit=limit))


def rate_of(job: Job) -> Span:
    """How long it runs for just the limit, rounded up."""
    run = job.status.run
    assert run is not None
    ms = 1
    while cost(run.price, Span(ms)) <= LIMIT:
        ms *= 2
    return Span(ms)


def away(stage: Stage) -> Standing:
    """A billing round that gets no answer; the scheduler is told, as its process tells it."""
    stage.faults.down |= {"credits"}
    stage.rounds(2)
    with pytest.raises(Unavailable):
        tick(stage.house)
    return told(stage)


def told(stage: Stage) -> Standing:
    found = standing(stage.blobs)
    stage.term.scheduler.stands(found)
    return found


def back(stage: Stage) -> None:
    stage.faults.down.clear()
    tick(stage.house)
    told(stage)
    stage.rounds(2)


def test_what_runs_counts_from_the_last_round_that_was_taken() -> None:
    """What was charged before is no risk any more."""
    stage = limited()
    job = stage.running()
    stage.clock.ms += 60_000
    stage.rounds(2)
    tick(stage.house)
    assert {} == told(stage).exposed
    stage.clock.ms += 7_000
    found, run = away(stage), stage.job(job).status.run
    assert run is not None
    assert found.taken is not None
    since = stage.clock.now() - found.taken
    ran = stage.fleet().ran(run)
    assert {"ann": cost(run.price, ran) - cost(run.price, ran - since)} == found.exposed
    assert 7_000 <= since.ms < 8_000


def test_above_the_limit_new_submits_wait_and_say_need_have_and_the_way_out() -> None:
    """The same request is taken when the service is back and has charged what ran."""
    stage = limited()
    job = stage.running()
    stage.clock.ms += rate_of(stage.job(job)).ms
    found = away(stage)
    bob, request = stage.user("bob"), stage.request(key="again")
    jobs = len(stage.stored())
    ann = evolve(bob, user="ann")
    with pytest.raises(Exposed, match=r"at most 1\.000000 may be.*first billing round") as refused:
        stage.hand_in(ann, request)
    assert (found.exposed["ann"].micro, LIMIT.micro) == (refused.value.need, refused.value.have)
    assert refused.value.retry_after_s > 0
    assert jobs == len(stage.stored()), "nothing is left behind"
    assert Phase.RUNNING is stage.phase(job), "what runs goes on"
    stage.faults.down.clear()
    assert stage.hand_in(bob, stage.request()).created, "another's limit is his own"
    with pytest.raises(Exposed):
        stage.hand_in(ann, request)
    back(stage)
    assert stage.hand_in(ann, request).created


def test_what_is_funded_already_is_not_placed_above_the_limit_and_keeps_nobody_else_waiting() -> None:
    """Its hold was made when the service answered; what it would run up comes on top. Its reason is written once."""
    stage = limited()
    job = stage.running(40)
    stage.clock.ms += rate_of(stage.job(job)).ms
    bob = stage.user("bob")
    waits, his = stage.submitted(40, gpus=2), stage.submitted(40, gpus=1, caller=bob)
    found = away(stage)
    stage.end(job)
    stage.uploaded(job)
    stage.rounds(4)
    assert (Phase.PENDING, Phase.ALLOCATED) == (stage.phase(waits), stage.phase(his))
    said, version = stage.job(waits).status.waiting, stage.job(waits).version
    assert said.startswith(WAITS), said
    assert str(found.exposed["ann"]) in said
    stage.clock.ms += 5_000
    away(stage)
    stage.rounds(3)
    assert version == stage.job(waits).version
    stage.faults.down.clear()
    stage.rounds(4)
    back(stage)
    assert not stage.job(waits).status.waiting.startswith(WAITS)


def test_at_the_limit_is_not_above_it_and_zero_is_zero() -> None:
    """A zero that was given lets nothing new begin while anything is uncharged; with nothing uncharged it stops nobody."""
    stage = limited(Credits(0))
    stage.submitted()
    job = stage.running()
    stage.clock.ms += 60_000
    stage.rounds(2)
    tick(stage.house)
    stage.submitted()
    stage.clock.ms += 60_000
    found = away(stage).exposed["ann"]
    stage.faults.down.clear()
    with pytest.raises(Exposed):
        stage.submitted()
    stage.house = evolve(stage.house, terms=evolve(stage.house.terms, exposure_limit=found))
    stage.submitted()
    assert Phase.RUNNING is stage.phase(job)


def test_what_has_ended_and_is_not_settled_and_what_is_in_arrears_counts() -> None:
    """A user who runs many short jobs owes as much as one who runs a long one."""
    stage = limited()
    job = stage.running()
    stage.clock.ms += 90_000
    stage.end(job)
    stage.uploaded(job)
    stage.faults.down |= {"credits"}
    stage.rounds(3)
    closing = stage.job(job)
    assert Phase.CLOSING is closing.status.phase
    assert closing.status.run is not None
    owes = cost(closing.status.run.price, Span(90_000))
    assert owes == away(stage).exposed["ann"], "also of a round that had nothing to charge"
    done = close(stage.house, evolve(closing, leaving=True))
    assert Phase.COMPLETED is done.status.phase
    with pytest.raises(Unavailable):
        tick(stage.house)
    assert owes == standing(stage.blobs).exposed["ann"], "it lies in the arrears now, and counts once"


def test_a_debt_that_is_refused_stays_in_the_exposure() -> None:
    """The service answers, and yet it is not paid."""
    stage = limited()
    job = stage.running()
    stage.clock.ms += rate_of(stage.job(job)).ms
    stage.end(job)
    stage.uploaded(job)
    stage.faults.down |= {"credits"}
    stage.rounds(3)
    close(stage.house, evolve(stage.job(job), leaving=True))
    stage.faults.down.clear()

    class Odd(MemoryCredits):
        def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
            return tuple(ChargeAnswer(ChargeState.REFUSED, Credits(0), Credits(7), "a total is lower than before") for _ in charges)

    tick(evolve(stage.house, credits=Odd(stage.clock)))
    found = standing(stage.blobs)
    assert ("", True) == (found.away, found.exposed["ann"] > LIMIT)
    with pytest.raises(Exposed):
        stage.submitted()


def test_one_that_can_not_be_read_is_none() -> None:
    """A newer release's, or a damaged one, refuses nobody; the next round writes another."""
    stage = limited()
    for data in (b"{", b'{"at": 1, "news": 2}', b"\xff"):
        stage.blobs.put(KEY, [data])
        assert Standing(Instant(0)) == standing(stage.blobs)
    stage.submitted()
