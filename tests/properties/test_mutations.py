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
from core.bookings import Bookings
from core.charges import totals
from core.house import House, Terms
from core.ledger import VramLedger
from core.ledger_state import GpuState
from core.next_step import NodeView, Step
from core.roster import Node, Roster
from core.schedule import Scheduler
from ports.cluster import Command, Forget, Go, Kill, Renew
from ports.credits import Charge, ChargeAnswer
from ports.errors import Conflict, Invalid, Unavailable
from ports.nodes import NodeRecord
from ports.tariffs import Price
from ports.units import Credits, Instant, Span
from ports.workloads import Job, JobStatus, Phase, RunId, RunState
from tests.memory.credits import MemoryCredits
from tests.simulation.actions import Mood
from tests.simulation.episodes import Failure, Make, run
from tests.simulation.faults import Mode
from tests.simulation.invariants import BrokenError
from tests.simulation.machines import Machine

SEEDS, STEPS = 4, 5_000
NODES = Mood.of(0, (), power_off=8, power_on=12, cut=8, mend=12, kill_agent=4, start_agent=8, wait=6, long=4, kill_process=4)
NAPS = Mood.of(0, (), cut=12, mend=16, long=8, beat=20)
LOSSES = Mood.of(0, (), crash=12, cut=8, mend=6, wait=12, tick=20)
TERMS = Mood.of(40, (Mode.PAUSE,), takeover=16, wake=60, resume=16, cancel=12, crash=4)
SWEEPS = Mood.of(20, (Mode.PAUSE, Mode.CRASH), takeover=12, wake=40, crash=8, cut=6, mend=8, kill_agent=4, start_agent=6)
CANCELS = Mood.of(40, (Mode.LOST, Mode.LATE), cancel=40, late=10, beat=4)
CRASHES = Mood.of(60, (Mode.LOST, Mode.LATE, Mode.REFUSED, Mode.CRASH, Mode.CRASH_AFTER), crash=12, late=12)
HOLDS = Mood.of(80, (Mode.LATE, Mode.PAUSE), late=10, resume=8, wait=8, cancel=12)
JUMPS = Mood.of(0, (), jump=12, long=4)
ANSWERS = Mood.of(60, (Mode.LOST, Mode.LATE, Mode.REFUSED, Mode.PAUSE), resume=12, late=12, touch=12)

pytestmark = pytest.mark.xdist_group("mutations")


def found(make: Make, mood: Mood, by: type[Exception] = BrokenError) -> Failure:
    """The first failure within a bounded number of seeds. by: what has to notice, else the mutation itself is broken."""
    for seed in range(1, SEEDS + 1):
        failure = run(seed, STEPS, make, mood=mood)
        if failure is not None:
            assert isinstance(failure.error, by), f"it broke, and nobody said what: {failure}"
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


class GivesUpAtATrouble(Scheduler):
    """What can't be done in this round is done never."""

    def _advance_all(self) -> None:
        super()._advance_all()
        self._dirty.clear()

    def _mark_waiting(self) -> None:
        pass


class StartsUnwritten(Scheduler):
    """`go` before Running is stored: a crash in between, and it is started again."""

    def _start(self, job: Job) -> None:
        run = job.status.run
        if run is not None:
            self._tell_all(dict.fromkeys(slot.node for slot in run.placement), Go(run.id, job.spec.max_runtime))
        super()._start(job)


class ForgetsAtOnce(Scheduler):
    """What has ended is forgotten on its node, whether its result is stored or not."""

    def _end(self, job: Job, step: core.next_step.End) -> None:
        super()._end(job, step)
        run = job.status.run
        if run is not None:
            self._tell_all(dict.fromkeys(slot.node for slot in run.placement), Forget(run.id))


class LeavesEverythingBehind(Scheduler):
    """Nothing is ever forgotten on a node."""

    def _tell(self, name: str, command: Command) -> None:
        if not isinstance(command, Forget):
            super()._tell(name, command)


class RenewsNoInputs(Scheduler):
    """Whoever was to serve what a run still has to fetch may be dead; it is given fresh permission to upload, and nothing else."""

    def _tell(self, name: str, command: Command) -> None:
        super()._tell(name, evolve(command, inputs={}) if isinstance(command, Renew) else command)


class ReadsTheClock(Scheduler):
    """How long it ran is the difference of two wall clocks."""

    def _end(self, job: Job, step: core.next_step.End) -> None:
        run = job.status.run
        began = run.started_at if run is not None else None
        ran = self._house.clock.now() - began if began is not None else step.ran
        super()._end(job, evolve(step, ran=max(ran, Span(0))))


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
        (IgnoresConflicts, CANCELS),
        (ForgetsWhatWasNotAnswered, ANSWERS),
        (SparesNobody, CANCELS),
        (GivesUpAtATrouble, ANSWERS),
        (StartsUnwritten, CRASHES),
        (ForgetsAtOnce, ANSWERS),
        (LeavesEverythingBehind, ANSWERS),
        (RenewsNoInputs, CRASHES),
        (ReadsTheClock, JUMPS),
    ],
)
def test_a_scheduler_with_this_fault_is_found(scheduler: type[Scheduler], mood: Mood) -> None:
    assert found(Make(scheduler=scheduler), mood).actions


@pytest.mark.parametrize("mood", [NODES, NAPS, LOSSES, TERMS, CANCELS, CRASHES, JUMPS, ANSWERS])
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
    assert found(Make(), SWEEPS, by=Invalid).actions  # by the ledger, which is asked to book what it keeps from everybody


def test_a_predecessor_that_writes_over_a_newer_terms_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows neither what was quarantined nor how long anything has run since."""

    def believes_it_all(self: Roster, stored: NodeRecord) -> None:
        pass

    monkeypatch.setattr(Roster, "_own", believes_it_all)
    assert found(Make(), TERMS).actions


def test_giving_a_booking_back_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that offers more than there is books a GPU over its MiB."""
    right = VramLedger.release

    def release(self: VramLedger, run: RunId) -> None:
        for slot in self.placement(run) or ():
            self._use(self._nodes[slot.node].gpus[slot.gpu], -slot.mib.n)
        right(self, run)

    monkeypatch.setattr(VramLedger, "release", release)
    assert found(Make(), NODES).actions


def test_offering_what_is_in_quarantine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free, booked and quarantined are the whole of a GPU."""
    right = VramLedger._use

    def use(self: VramLedger, gpu: GpuState, booked: int, quarantined: int = 0, closed: bool = False) -> None:
        right(self, gpu, booked, 0, closed)
        gpu.quarantined += quarantined

    monkeypatch.setattr(VramLedger, "_use", use)
    assert found(Make(), NODES).actions


def test_keeping_a_booking_of_what_has_ended_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """VRAM that nobody uses and nobody gets."""
    monkeypatch.setattr(Bookings, "drop", lambda self, job_id: self._held.pop(job_id, None) is not None)
    assert found(Make(), ANSWERS).actions


def test_a_credit_service_that_adds_what_it_is_told_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of billers post the same totals."""
    right = MemoryCredits._charge

    def adds(self: MemoryCredits, charge: Charge) -> ChargeAnswer:
        self._charges.pop((charge.uid, charge.run), None)
        return right(self, charge)

    monkeypatch.setattr(MemoryCredits, "_charge", adds)
    assert found(Make(), ANSWERS).actions


def test_a_void_that_bars_no_late_authorise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that slept between create and authorise would hold credits for a job that is no more."""
    monkeypatch.setattr(MemoryCredits, "void", lambda self, key: self._holds.pop(key, None))
    assert found(Make(), HOLDS).actions
