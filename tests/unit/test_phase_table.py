"""The phase table: the shape that every job's life has, and the writes that no store lets through."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from ports.errors import IllegalTransition
from ports.tariffs import Price
from ports.units import Instant, Mib, Span
from ports.workloads import (
    TERMINAL,
    TRANSITIONS,
    Ask,
    BlobRef,
    Job,
    JobSpec,
    JobStatus,
    Phase,
    Run,
    RunId,
    RunState,
    Slot,
    check_transition,
)

BLOB = BlobRef("0" * 64, 1)
RUN = Run(RunId("job-1", 1), RunState.RUNNING, (Slot("a", 0, Mib(1)),), 1, Price(1, ()), Instant(5), ran=Span(10))
ENDED = {Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED}


def job(phase: Phase = Phase.PENDING, *runs: Run, attempt: int = 0) -> Job:
    spec = JobSpec("ada", "paid", "square", Ask(Mib(1)), BLOB, BLOB)
    return Job("job-1", "uid-1", Instant(0), spec, JobStatus(phase, attempt, runs))


def allowed(old: Job, new: Job) -> bool:
    try:
        check_transition(old, new)
    except IllegalTransition:
        return False
    return True


def test_every_phase_has_a_row() -> None:
    """A phase without one would be a KeyError in a store, in the middle of a write."""
    assert set(Phase) == set(TRANSITIONS)


def test_the_terminal_phases_are_the_three_ways_to_end() -> None:
    """Whoever waits for a job's end waits for these."""
    assert ENDED == TERMINAL


def test_a_job_ends_only_by_way_of_closing() -> None:
    """Closing is where the last charge is posted and the hold is given back: an end beside it would lose money."""
    assert {Phase.CLOSING} == {was for was, nexts in TRANSITIONS.items() if nexts & ENDED}


def test_a_closing_job_never_gets_a_gpu_again() -> None:
    """Its bill is being made final."""
    assert ENDED == TRANSITIONS[Phase.CLOSING]


@pytest.mark.parametrize("was", Phase)
@pytest.mark.parametrize("wanted", Phase)
def test_the_check_lets_through_what_the_table_has_and_no_more(was: Phase, wanted: Phase) -> None:
    """The table is data for core and law for every store: both must read it alike. Staying is always allowed."""
    assert (wanted is was or wanted in TRANSITIONS[was]) is allowed(job(was), job(wanted))


@given(st.data())
def test_every_walk_can_still_end_and_never_leaves_its_end(data: st.DataObject) -> None:
    """From wherever a job is, two writes can end it; once ended, no write moves it: one terminal phase, one bill."""
    now = Phase.PENDING
    for wanted in data.draw(st.lists(st.sampled_from(Phase), max_size=30), label="wanted phases"):
        if allowed(job(now), job(wanted)):
            assert now not in TERMINAL or wanted is now
            now = wanted
        ways = {now} | TRANSITIONS[now] | {far for near in TRANSITIONS[now] for far in TRANSITIONS[near]}
        assert ways & TERMINAL


@given(st.lists(st.sampled_from(RunState), min_size=1, max_size=10), st.lists(st.integers(0, 50), min_size=10, max_size=10))
def test_a_run_only_moves_forward_and_its_time_only_grows(states: list[RunState], times: list[int]) -> None:
    """Compute billing stops when a run ends: a run that came back to life, or got younger, would be billed wrong."""
    order = list(RunState)
    now = evolve(RUN, state=RunState.BOOKED, ran=Span(0))
    for state, ms in zip(states, times, strict=False):
        wanted = evolve(now, state=state, ran=Span(ms))
        forward = order.index(state) >= order.index(now.state) and ms >= now.ran.ms
        assert forward is allowed(job(Phase.RUNNING, now), job(Phase.RUNNING, wanted))
        now = wanted if forward else now


@pytest.mark.parametrize(
    "change",
    [{"placement": (Slot("b", 0, Mib(1)),)}, {"placement": (Slot("a", 0, Mib(2)),)}, {"epoch": 2}, {"price": Price(2, ())}],
    ids=["node", "vram", "epoch", "price"],
)
def test_what_a_run_was_placed_with_stays(change: dict[str, Any]) -> None:
    """Nobody's price changes under him, and the ledger is derived from the placement."""
    assert not allowed(job(Phase.RUNNING, RUN), job(Phase.RUNNING, evolve(RUN, **change)))


def test_a_run_is_never_forgotten() -> None:
    """What is owed for it stands in it. A new one may be added beside it."""
    second = evolve(RUN, id=RunId("job-1", 2))
    assert not allowed(job(Phase.RUNNING, RUN), job(Phase.RUNNING))
    assert allowed(job(Phase.RUNNING, RUN), job(Phase.RUNNING, RUN, second))


def test_attempts_never_count_down() -> None:
    """A lower attempt would reuse the folder of outputs and the name of a run that has been."""
    assert allowed(job(attempt=1), job(attempt=2))
    assert not allowed(job(attempt=2), job(attempt=1))


@pytest.mark.parametrize("other", [{"uid": "uid-2"}, {"created_at": Instant(1)}, {"spec": evolve(job().spec, user="eve")}], ids=str)
def test_what_was_asked_for_is_immutable(other: dict[str, Any]) -> None:
    """Who asked, for what and since when decides on money and turn: no later write may change it."""
    assert not allowed(job(), evolve(job(), **other))


def test_a_refused_write_names_the_job_and_both_ends_of_the_move() -> None:
    """It is a bug in a writer: the log line must be enough to find it."""
    with pytest.raises(IllegalTransition) as caught:
        check_transition(job(Phase.COMPLETED), job(Phase.RUNNING))
    assert "job-1: Completed -> Running is not allowed" == str(caught.value)
