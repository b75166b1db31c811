"""Each mechanism that keeps an invariant is broken once, and the simulation must notice.

A simulation that finds nothing proves nothing unless it would have found something.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from attrs import evolve

import core.close
import core.next_step
import core.tick
from core.charges import totals
from core.house import House, Terms
from core.next_step import NodeView, Step
from core.roster import Node, Roster
from core.schedule import Scheduler
from ports.cluster import Command, Kill
from ports.errors import Conflict, Unavailable
from ports.tariffs import Price
from ports.units import Credits, Instant, Span
from ports.workloads import Job, JobStatus, Phase, RunState
from tests.simulation.actions import Mood
from tests.simulation.episodes import Failure, Make, run
from tests.simulation.faults import Mode
from tests.simulation.machines import Machine

SEEDS, STEPS = 4, 5_000
NODES = Mood.of(0, (), power_off=8, power_on=12, cut=8, mend=12, kill_agent=4, start_agent=8, wait=6, long=4, kill_process=4)
NAPS = Mood.of(0, (), cut=12, mend=16, long=8, beat=20)
LOSSES = Mood.of(0, (), crash=12, cut=8, mend=6, wait=12, tick=20)
TERMS = Mood.of(40, (Mode.PAUSE,), takeover=16, wake=60, resume=16, cancel=12, crash=4)
SWEEPS = Mood.of(20, (Mode.PAUSE, Mode.CRASH), takeover=12, wake=40, crash=8, cut=6, mend=8, kill_agent=4, start_agent=6)
CANCELS = Mood.of(40, (Mode.LOST, Mode.LATE), cancel=40, late=10, beat=4)
ANSWERS = Mood.of(60, (Mode.LOST, Mode.LATE, Mode.REFUSED, Mode.PAUSE), resume=12, late=12, touch=12)

pytestmark = pytest.mark.xdist_group("mutations")


def found(make: Make, mood: Mood) -> Failure:
    """The first failure within a bounded number of seeds."""
    for seed in range(1, SEEDS + 1):
        failure = run(seed, STEPS, make, mood=mood)
        if failure is not None:
            return failure
    pytest.fail(f"{SEEDS} seeds of {STEPS} steps found nothing wrong with it")


# ---------------------------------------------------------------- schedulers that do one thing wrong


class ReleasesEarly(Scheduler):
    """VRAM is free as soon as somebody has decided to kill."""

    def _tell(self, name: str, command: Command) -> None:
        super()._tell(name, command)
        if isinstance(command, Kill):
            self.ledger.release(command.run)
            self._queue_moved = True


class SkipsQuarantine(Scheduler):
    """What can't be asked is taken to be gone."""

    def _quarantine(self, job: Job, lost: tuple[str, ...]) -> None:
        pass

    def _take(self, job: Job) -> None:
        run = job.status.run
        if run is not None and run.state is RunState.ENDED:
            self._bookings._held.pop(job.id, None)
            self.ledger.release(run.id)
            self._queue_moved = True
        super()._take(job)


class IgnoresConflicts(Scheduler):
    """A booking is written over whatever somebody else has written meanwhile."""

    def _write(self, job: Job, status: JobStatus) -> Job:
        try:
            return super()._write(job, status)
        except Conflict:
            fresh = self._house.workloads.get(job.id)
            if fresh is None or status.phase is not Phase.ALLOCATED:
                raise
            return super()._write(evolve(job, version=fresh.version), status)


class ForgetsWhatWasNotAnswered(Scheduler):
    """A write that was not answered did not happen."""

    def _write(self, job: Job, status: JobStatus) -> Job:
        try:
            return super()._write(job, status)
        except Unavailable:
            self._stale.pop(job.id, None)
            raise


class SparesNobody(Scheduler):
    """A job that its user cancels before it has run is Cancelled at once, whatever has been sent to its agent."""

    def _views(self, job: Job) -> dict[str, NodeView]:
        return {name: evolve(view, absent=True) for name, view in super()._views(job).items()}


class ObeysAnybody(Machine):
    """An agent that asks nobody for an epoch."""

    def _enter(self, epoch: int) -> None:
        self._ask()
        self.epoch = 0


@pytest.mark.parametrize(
    ("scheduler", "mood"),
    [
        (ReleasesEarly, NODES),
        (SkipsQuarantine, NODES),
        (IgnoresConflicts, ANSWERS),
        (ForgetsWhatWasNotAnswered, ANSWERS),
        (SparesNobody, CANCELS),
    ],
)
def test_a_scheduler_with_this_fault_is_found(scheduler: type[Scheduler], mood: Mood) -> None:
    assert found(Make(scheduler=scheduler), mood).actions


@pytest.mark.parametrize("mood", [NODES, NAPS, LOSSES, TERMS, CANCELS, ANSWERS])
def test_nothing_is_found_where_nothing_is_broken(mood: Mood) -> None:
    """Else whatever the others find would prove nothing."""
    assert run(1, 2_500, mood=mood) is None


def test_an_agent_that_obeys_a_predecessor_is_found() -> None:
    """The epoch is what makes a paused predecessor harmless."""
    assert found(Make(machine=ObeysAnybody), TERMS).actions


def test_terms_that_share_an_epoch_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor that takes no number of its own can't be told from its predecessor."""
    monkeypatch.setattr("tests.simulation.processes.take_epoch", lambda epochs, at_least: 1)
    assert found(Make(), TERMS).actions


def test_charging_increments_instead_of_totals_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost answer would be charged twice, or never."""
    posted: dict[int, Span] = {}

    def increments(price: Price, ran: Span) -> dict[str, Credits]:
        before, posted[id(price)] = posted.get(id(price), Span(0)), ran
        return totals(price, ran - before if ran > before else Span(0))

    monkeypatch.setattr(core.tick, "totals", increments)
    assert found(Make(), ANSWERS).actions


def test_launching_what_was_running_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can prove that the user's code has not run."""
    right = core.next_step.next_step

    def relaunch(job: Job, nodes: Mapping[str, NodeView], now: Instant, terms: Terms) -> Step:
        if job.status.phase is Phase.RUNNING:
            unknown = tuple(name for name, view in nodes.items() if view.answered and view.report is None)
            if unknown:
                return core.next_step.Prepare(unknown)
        return right(job, nodes, now, terms)

    monkeypatch.setattr(core.next_step, "next_step", relaunch)
    assert found(Make(), NODES).actions


def test_forgetting_to_void_a_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold that never ends takes the user's credits away for ever."""
    right = core.close.close

    class NoVoid:
        def __init__(self, house: House) -> None:
            self._credits = house.credits

        def __getattr__(self, name: str) -> object:
            return (lambda key: None) if name == "void" else getattr(self._credits, name)

    monkeypatch.setattr(core.close, "close", lambda house, job: right(evolve(house, credits=NoVoid(house)), job))
    assert found(Make(), ANSWERS).actions


def test_erasing_the_running_times_of_a_silent_node_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A successor would end a lost run without the time that is charged already."""
    monkeypatch.setattr(Roster, "_remember_ran", staticmethod(lambda node, stored: None))
    assert found(Make(), LOSSES).actions


def test_taking_ones_own_sleep_for_a_nodes_silence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler that was paused for two minutes would give up runs that are well."""
    monkeypatch.setattr("core.roster.NAP", Span.of(hours=10))
    assert found(Make(), NAPS).actions


def test_offering_a_node_before_its_agent_has_swept_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran there before may still hold its VRAM."""
    right = Roster._fit

    def fit(self: Roster, node: Node) -> None:
        answered, node.answered = node.answered, True
        try:
            right(self, node)
        finally:
            node.answered = answered

    monkeypatch.setattr(Roster, "_fit", fit)
    assert found(Make(), SWEEPS).actions
