"""Whatever dies, the same loop goes on: takeovers, lost nodes, quarantine, orphans, predecessors that wake up late."""

from __future__ import annotations

from functools import partial

import pytest
from attrs import evolve

from core.callers import Caller
from core.jobs import cancel
from core.lifecycle import FREE, allocated
from core.nodes import NodeChange, declare
from core.owners import ORG_POOL
from core.packing import NoRoom
from core.submit import submit
from ports.cluster import Reports, ReportState, RunReport
from ports.errors import StaleEpoch, Unavailable
from ports.nodes import NodeState
from ports.units import Mib, Span
from ports.workloads import Exit, ExitKind, Phase, RunId, RunState, Slot
from tests.simulation.actions import Action
from tests.simulation.faults import Mode
from tests.simulation.invariants import check, check_at_rest
from tests.simulation.stage import TWO_NODES, Stage
from tests.simulation.world import GB, TERMS

LOST = {"count": 24, "ms": 5_000}


def succeed(stage: Stage) -> None:
    """The scheduler dies, and another one takes over."""
    stage._crash(Action("crash"))
    stage._begin()


def test_a_successor_finds_every_run_and_ends_each_once() -> None:
    stage = Stage()
    job = stage.running()
    succeed(stage)
    assert 40 == stage.free("n0", 1)
    assert 32 == stage.free("n0", 0)
    stage.rounds(2)
    assert Phase.RUNNING == stage.phase(job)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)
    assert 1 == stage.truth.starts[stage.job(job).status.runs[0].id, "n0"]


def test_a_successor_places_nothing_on_a_node_before_its_agent_has_said_hello() -> None:
    """What ran there before may still be there."""
    stage = Stage()
    succeed(stage)
    job = stage.submitted()
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.term.round()
    assert Phase.PENDING == stage.phase(job)
    stage.rounds(2)
    assert Phase.ALLOCATED == stage.phase(job)


def test_a_silent_node_is_given_up_after_its_time_and_its_vram_waits_in_quarantine() -> None:
    stage = Stage()
    job = stage.running(40)
    stage.machines["n0"].connected = False
    stage.rounds(10, ms=5_000)
    assert Phase.RUNNING == stage.phase(job)
    stage.rounds(**LOST)
    status = stage.job(job).status
    assert (Phase.FAILED, "RunnerLost") == (status.phase, status.reason)
    record = stage.records.get("n0")
    assert record is not None
    assert NodeState.UNREACHABLE is record.status.state
    assert [f"{job}/1"] == stage.quarantined("n0")


def test_quarantine_outlives_the_scheduler_and_ends_when_the_run_is_gone() -> None:
    """It is in the node record, not in anybody's memory."""
    stage = Stage()
    job = stage.running(40)
    stage.machines["n0"].connected = False
    stage.rounds(**LOST)
    succeed(stage)
    stage.machines["n0"].connected = True
    stage.rounds()
    assert (0, 40) == (stage.free("n0", 0), stage.free("n0", 1))
    stage.rounds(2, ms=1_000)
    stage.machines["n0"].work(0, 1)  # it was told to end
    stage.rounds(3, ms=1_000)
    assert 40 == stage.free("n0", 0)
    assert [] == stage.quarantined("n0")
    stage.uploaded(job)
    stage.rounds(3, ms=6_000)
    check_at_rest(stage)


def told(stage: Stage) -> list[str]:
    """The runs of whose running times the record of n0 tells."""
    record = stage.records.get("n0")
    assert record is not None
    return list(record.status.ran)


def finished_since_the_last_note(stage: Stage) -> str:
    """A job that has ended and is forgotten by its node, while the record still tells of its run."""
    job = stage.running()
    stage.rounds(3, ms=6_000)
    stage.completed(job)
    assert {} == stage.machines["n0"].runs
    assert [f"{job}/1"] == told(stage)
    return job


def test_a_run_that_is_forgotten_leaves_the_record_also_when_somebody_else_has_taken_over() -> None:
    """Else `drift` tells an operator of it for ever."""
    stage = Stage()
    finished_since_the_last_note(stage)
    succeed(stage)
    stage.rounds(4, ms=6_000)
    assert [] == told(stage)


def test_a_run_that_a_dead_scheduler_noted_leaves_the_record_of_a_machine_that_is_declared_gone() -> None:
    """Nobody will ever ask that machine again."""
    stage = Stage()
    finished_since_the_last_note(stage)
    stage.machines["n0"].power_off()
    succeed(stage)
    stage.truth.declared.add("n0")
    declare(stage.house, NodeChange("n0", gone=True))
    stage.rounds(4, ms=6_000)
    assert [] == told(stage)


def test_a_run_that_is_forgotten_does_not_come_back_by_an_operators_write() -> None:
    """The scheduler meets its own older note in the record that the operator has changed."""
    stage = Stage()
    finished_since_the_last_note(stage)
    declare(stage.house, NodeChange("n0", drain=True))
    stage.rounds(4, ms=6_000)
    assert [] == told(stage)


def test_a_run_that_its_node_was_not_told_to_forget_is_forgotten_when_the_node_is_back_without_it() -> None:
    """It has ended properly, so nothing is in quarantine for it; and a disk that was wiped tells nothing of it."""
    stage = Stage()
    job = stage.submitted()
    stage.rounds(2)
    cancel(stage.house, Caller("ann"), job)
    stage.rounds(2)
    assert Phase.CANCELLED is stage.phase(job)
    assert 1 == len(stage.machines["n0"].runs)
    stage.machines["n0"].power_off()
    stage.rounds(3)
    stage.machines["n0"].power_on(wiped=True)
    stage.rounds(4, ms=6_000)
    node = stage.term.scheduler.roster.get("n0")
    assert node is not None
    assert {} == node.ran


def test_what_a_dead_scheduler_noted_of_a_run_that_lives_is_kept() -> None:
    """It is charged already: whoever ends the run as lost must bill no less."""
    stage = Stage()
    job = stage.running()
    stage.rounds(3, ms=6_000)
    stage.machines["n0"].power_off()
    stage.machines["n0"].power_on(wiped=True)
    succeed(stage)
    stage.rounds(4, ms=1_000)
    run = stage.job(job).status.run
    assert run is not None
    assert Span(10_000) < run.ran


def test_a_machine_declared_gone_ends_its_runs_at_once_and_keeps_nothing_in_quarantine() -> None:
    stage = Stage(TWO_NODES)
    job = stage.running(40, gpus=2)
    name = stage.placed(job)
    stage.machines[name].power_off()
    stage.truth.declared.add(name)
    declare(stage.house, NodeChange(name, gone=True))
    stage.rounds(5, ms=2_000)
    status = stage.job(job).status
    assert (Phase.FAILED, "RunnerLost") == (status.phase, status.reason)
    assert [] == stage.quarantined(name)
    assert {} == stage.term.scheduler.ledger.quarantined()
    assert name not in stage.term.scheduler.ledger


def test_a_gang_that_lost_a_node_keeps_its_vram_on_the_others_until_it_is_gone_there() -> None:
    """Also for a successor, who can't book all of it any more."""
    stage = Stage(TWO_NODES)
    job = stage.submitted(40, gpus=2, workers=2)
    stage.rounds(2)
    stage.machines["n1"].power_off()
    stage.truth.declared.add("n1")
    declare(stage.house, NodeChange("n1", gone=True))
    succeed(stage)
    other = stage.submitted(40)
    stage.rounds(1)
    assert (0, 0) == (stage.free("n0", 0), stage.free("n0", 1))
    stage.rounds(6, ms=2_000)
    assert Phase.ALLOCATED == stage.phase(other)
    assert (Phase.PENDING, RunState.ENDED) == (stage.phase(job), stage.job(job).status.runs[0].state)


def test_a_cancelled_job_on_a_machine_declared_gone_is_cancelled() -> None:
    """Then its processes are gone for certain."""
    stage = Stage()
    job = stage.running()
    stage.machines["n0"].power_off()
    stage.truth.declared.add("n0")
    declare(stage.house, NodeChange("n0", gone=True))
    stored = stage.job(job)
    stage.jobs.replace(evolve(stored, status=evolve(stored.status, cancel=stage.clock.now())))
    stage.rounds(5, ms=2_000)
    assert Phase.CANCELLED == stage.phase(job)


def test_a_node_that_was_rebooted_says_what_it_lost_and_offers_its_vram_again() -> None:
    stage = Stage()
    job = stage.running(40)
    stage.clock.ms += 8_500
    stage.machines["n0"].power_off()
    stage.rounds(2, ms=1_000)
    stage.machines["n0"].power_on()
    stage.rounds(2)
    stage.uploaded(job)
    stage.rounds(3)
    status = stage.job(job).status
    assert (Phase.FAILED, "RunnerLost", Span(8_000)) == (status.phase, status.reason, status.runs[0].ran)
    assert 40 == stage.free("n0")


def test_a_run_that_was_started_is_never_started_again_by_a_node_that_forgot_it() -> None:
    """A wiped disk proves nothing about what has run."""
    stage = Stage()
    job = stage.running()
    stage.machines["n0"].power_off()
    stage.machines["n0"].power_on(wiped=True)
    stage.rounds(5, ms=1_000)
    status = stage.job(job).status
    assert (Phase.FAILED, "RunnerLost", 1) == (status.phase, status.reason, status.attempt)


def test_a_killed_agent_ends_nothing() -> None:
    stage = Stage()
    job = stage.running()
    stage.machines["n0"].stop_agent()
    stage.rounds(3, ms=5_000)
    stage.machines["n0"].start_agent()
    stage.rounds(3)
    assert Phase.RUNNING == stage.phase(job)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)


def test_what_an_agent_reports_and_nobody_has_stored_is_killed_and_forgotten() -> None:
    """An object that was deleted leaves no process behind."""
    stage = Stage()
    job = stage.running(40)
    stage.jobs.delete(stage.job(job))
    stage.money.void(next(iter(stage.money._holds)))
    stage.rounds(2)
    assert 0 == stage.free("n0", 0)
    stage.machines["n0"].work(0, 1)
    stage.machines["n0"].work(0, 0)
    stage.rounds(4)
    assert 40 == stage.free("n0", 0)
    assert {} == stage.machines["n0"].runs


def test_an_object_that_is_deleted_as_soon_as_it_has_ended_leaves_nothing_on_its_node() -> None:
    """Retention may be faster than the scheduler's next look at it."""
    stage = Stage()
    job = stage.running()
    stage.end(job)
    stage.uploaded(job)
    while stage.phase(job) is not Phase.COMPLETED:
        stage.rounds()
    stage.jobs.delete(stage.job(job))
    stage.rounds(3)
    assert {} == stage.machines["n0"].runs


def test_an_orphan_is_only_what_a_fresh_read_says_is_one() -> None:
    """A successor that has not listed it yet, or a watch that is late, is no reason to kill."""
    stage = Stage()
    job = stage.running()
    scheduler = stage.term.scheduler
    scheduler._drop(job)  # it has forgotten it, as one does that read an older page
    scheduler._orphans.add("n0", stage.job(job).status.runs[0].id)
    stage.rounds(2, ms=6_000)
    assert Phase.RUNNING == stage.phase(job)
    assert not stage.machines["n0"].runs[stage.job(job).status.runs[0].id].killed
    assert 32 == stage.free("n0")


# ---------------------------------------------------------------- predecessors


def paused(stage: Stage) -> None:
    """The scheduler stands still before its next write; another one takes over, and knows all machines."""
    stage.faults.armed["store.replace"] = Mode.PAUSE
    stage._round(Action("round"))
    assert stage.paused
    stage._takeover(Action("takeover"))
    stage.rounds(2)


def wake(stage: Stage) -> None:
    stage._resume(Action("resume"))
    check(stage)


def test_a_run_that_a_predecessor_has_stored_elsewhere_is_booked_there_and_nowhere_else() -> None:
    """It was paused before its write, and woke between our booking and ours: the object has the run on its GPU."""
    stage = Stage(TWO_NODES)
    job = stage.job(stage.submitted())
    scheduler, run = stage.term.scheduler, RunId(job.id, 1)
    ours = scheduler.ledger.reserve(run, job.spec.ask, (ORG_POOL,))
    assert not isinstance(ours, NoRoom)
    scheduler._bookings.reserved(job.id, run, ours)
    other = next(name for name in ("n0", "n1") if name != ours[0].node)
    theirs = (evolve(ours[0], node=other),)
    stage.jobs.replace(evolve(job, status=allocated(job, theirs, 1, FREE, stage.clock.now())))
    stage.rounds(1)
    assert theirs == scheduler.ledger.placement(run)
    assert [theirs] == [scheduler.ledger.placement(each) for each in scheduler.ledger.runs()]


def test_a_predecessor_paused_in_a_placement_changes_nothing_when_it_wakes() -> None:
    stage = Stage()
    job = stage.submitted(40)
    stage._watch(Action("watch"))
    stage.term.events(10)
    paused(stage)
    before = stage.job(job)
    assert 2 == before.status.runs[0].epoch
    wake(stage)
    assert before == stage.job(job)
    for _ in range(3):
        stage._wake(Action("wake", 0, 0))
    assert before == stage.job(job)
    stage.ready(job)
    stage.rounds(2)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)


def test_a_placement_of_a_predecessor_that_comes_late_is_honoured_if_its_slots_are_free() -> None:
    stage = Stage(TWO_NODES)
    job = stage.submitted(40)
    stage.faults.armed["store.replace"] = Mode.LATE
    stage.rounds(1)
    succeed(stage)
    stage._late(Action("late"))
    stage.rounds(3, ms=1_000)
    run = stage.job(job).status.runs[0]
    assert (1, RunState.BOOKED) == (run.epoch, run.state)
    stage.ready(job)
    stage.rounds(2)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)


def test_a_placement_of_a_predecessor_that_comes_late_to_taken_slots_ends_and_queues_again() -> None:
    stage = Stage((("n0", "org", "A100", 40 * GB, 1),))
    stage._takeover(Action("takeover"))
    stage.rounds(2)
    stage.running(40)
    late = stage.submitted(40)
    stage.rounds(2)
    slots = (Slot("n0", 0, Mib(40 * GB)),)
    stage.jobs.replace(evolve(stage.job(late), status=allocated(stage.job(late), slots, 1, FREE, stage.clock.now())))
    stage.rounds(4, ms=1_000)
    status = stage.job(late).status
    assert (Phase.PENDING, RunState.ENDED) == (status.phase, status.runs[0].state)
    assert 0 == stage.free("n0")


def test_a_predecessor_that_meets_what_a_newer_term_has_placed_stops() -> None:
    stage = Stage()
    old = stage.term
    stage._takeover(Action("takeover"))
    job = stage.submitted()
    stage.rounds(2)
    old.scheduler._suspect(job)
    with pytest.raises(StaleEpoch):
        old.scheduler.round()


def test_a_predecessor_writes_no_node_record_over_a_newer_terms() -> None:
    """Else quarantine and running times that the newer one has noted would be gone."""
    stage = Stage()
    old = stage.term
    stage._takeover(Action("takeover"))
    stage.rounds(2)
    before = stage.records.get("n0")
    old.scheduler.node_down("n0", "so it seems to one who slept")
    with pytest.raises(StaleEpoch):
        old.scheduler.round()
    assert before == stage.records.get("n0")


def test_rounds_of_cron_give_up_a_silent_node_as_a_standing_scheduler_does() -> None:
    """Each lasts for some seconds and remembers nothing that is not stored."""
    stage = Stage()
    job = stage.running()
    stage.machines["n0"].power_off()
    taken = 0
    while stage.phase(job) is Phase.RUNNING and taken < 20:
        stage._takeover(Action("takeover"))
        stage.rounds(16, ms=1_000)
        taken += 1
    assert 6 < taken < 10
    stage.rounds(3, ms=1_000)
    ended = stage.job(job).status
    assert (Phase.FAILED, "RunnerLost") == (ended.phase, ended.reason)
    assert [f"{job}/1"] == stage.quarantined("n0")


def test_a_predecessor_that_never_heard_of_a_node_leaves_its_record_alone() -> None:
    """It would erase how long a run has run there; a third term would then bill a lost run less than was charged."""
    stage = Stage(started=False)
    stage._begin()
    old = stage.term
    stage._takeover(Action("takeover"))
    stage.rounds()
    job = stage.running()
    stage.rounds(ms=60_000)
    stage._tick(Action("tick"))
    with pytest.raises(StaleEpoch):
        old.scheduler.round()
    stage.machines["n0"].power_off()
    stage._takeover(Action("takeover"))
    stage.rounds(30, ms=4_000)
    assert Span(60_000) == stage.job(job).status.runs[0].ran


def test_a_scheduler_that_slept_itself_gives_up_no_run() -> None:
    """Two minutes in which it asked nobody prove nothing about a node."""
    stage = Stage()
    job = stage.running()
    stage.machines["n0"].connected = False
    stage.rounds()
    stage.machines["n0"].connected = True
    stage.clock.ms += 600_000
    stage.term.round()
    assert Phase.RUNNING == stage.phase(job)
    stage.rounds(2)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)


# ---------------------------------------------------------------- news and answers


def test_old_news_of_the_store_undoes_nothing() -> None:
    """The watch may be seconds behind the scheduler's own writes."""
    stage = Stage()
    job = stage.submitted()
    old = stage.jobs.changes("0")
    stage.rounds(2)
    known = stage.term.scheduler._jobs[job]
    stage.term.scheduler.changed(old)
    assert known == stage.term.scheduler._jobs[job]
    stage.rounds(2)
    assert 32 == stage.free("n0")
    assert 1 == stage.job(job).status.attempt


@pytest.mark.parametrize("mode", [Mode.LOST, Mode.REFUSED, Mode.LATE])
def test_a_booking_that_was_not_answered_stands_until_it_is_known(mode: Mode) -> None:
    """It may be stored: whoever is placed there meanwhile would have half a GPU."""
    stage = Stage((("n0", "org", "A100", 40 * GB, 1),))
    first, second = stage.submitted(40), stage.submitted(40)
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.faults.armed["store.replace"] = mode
    with pytest.raises(Unavailable):
        stage.term.scheduler.round()
    stage.faults.down.add("store")
    with pytest.raises(Unavailable):
        stage.term.scheduler.round()
    assert 0 == stage.free("n0")
    stage.faults.down.clear()
    stage.rounds(3, ms=1_000)
    if mode is Mode.LATE:
        stage._late(Action("late"))
    stage.rounds(3, ms=1_000)
    booked_now = sorted(str(stage.phase(each)) for each in (first, second))
    assert ["Allocated", "Pending"] == booked_now


def test_one_job_that_can_not_be_moved_on_holds_up_no_other() -> None:
    """Its service is away; the others' is not."""
    stage = Stage()
    one, other = stage.running(), stage.running()
    stage.end(one)
    stage.end(other)
    stage.faults.armed["store.replace"] = Mode.REFUSED
    stage.rounds(1)
    assert [Phase.CLOSING, Phase.RUNNING] == sorted([stage.phase(one), stage.phase(other)])
    stage.rounds(1)
    assert [Phase.CLOSING, Phase.CLOSING] == [stage.phase(one), stage.phase(other)]


def test_a_whole_answer_of_the_store_tells_what_is_gone() -> None:
    """Its difference was too old to be told."""
    stage = Stage()
    job = stage.submitted(40)
    stage.rounds(2)
    stage.jobs.delete(stage.job(job))
    stage.money.void(next(iter(stage.money._holds)))
    changes = evolve(stage.jobs.changes(""), whole=True)
    stage.term.scheduler.changed(changes)
    stage.rounds(5, ms=1_000)
    assert 40 == stage.free("n0")


def test_a_result_that_was_uploaded_is_not_lost_to_a_node_that_dies_then() -> None:
    stage = Stage()
    job = stage.running()
    stage.end(job)
    stage.uploaded(job)
    stage.rounds(1)
    stage.machines["n0"].power_off()
    stage.rounds(4, ms=2_000)
    assert Phase.COMPLETED == stage.phase(job)


def test_a_result_that_a_dead_node_has_is_waited_for_and_then_given_up() -> None:
    stage = Stage()
    job = stage.running()
    stage.end(job)
    stage.rounds(1)
    stage.machines["n0"].power_off()
    stage.rounds(3, ms=60_000)
    assert Phase.CLOSING == stage.phase(job)
    stage.clock.ms += TERMS.result_bound.ms
    stage.rounds(4, ms=60_000)
    status = stage.job(job).status
    assert (Phase.FAILED, "ResultLost") == (status.phase, status.reason)


# ---------------------------------------------------------------- a death at every I/O


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER])
def test_a_death_at_any_io_of_a_jobs_whole_life_costs_nobody_anything(mode: Mode) -> None:
    """Submit, placement, launch, tick, end, close: whoever does that I/O is dead, and his successor goes on."""
    deaths = 0
    for at in range(1, 200):
        stage = Stage(started=False)
        request = stage.request(key="k")
        stage.faults.fuse, stage.faults.blows = at, mode
        for turn in range(40):
            if stage.process is None:
                stage._begin()
            if turn < 3:
                stage._hand_in(Caller("ann"), request)
            stage.rounds(1, ms=3_000)
            stage._tick(Action("tick"))
            for machine in stage.machines.values():
                machine.work(0, 0)
        blown = stage.faults.fuse == 0
        deaths += blown
        job = submit(stage.house, Caller("ann"), request, stage.fleet()).job
        assert (Phase.COMPLETED, 1) == (job.status.phase, job.status.attempt)
        check(stage)
        check_at_rest(stage)
        if not blown:
            break
    assert deaths > 50


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER])
def test_a_death_at_any_io_of_a_cancel_ends_the_job_once(mode: Mode) -> None:
    deaths = 0
    for at in range(1, 100):
        stage = Stage()
        job = stage.running()
        stage.faults.fuse, stage.faults.blows = at, mode
        for turn in range(20):
            if stage.process is None:
                stage._begin()
            if turn < 3:
                stage._as(None, partial(cancel, stage.house, Caller("ann"), job))
            stage.rounds(1, ms=3_000)
            for machine in stage.machines.values():
                machine.work(0, 1)
                machine.work(0, 1)
        blown, stage.faults.fuse = stage.faults.fuse == 0, 0
        deaths += blown
        stage.beat()
        assert Phase.CANCELLED == stage.phase(job)
        check_at_rest(stage)
        if not blown:
            break
    assert deaths > 15


@pytest.mark.parametrize(("uid", "counts"), [("of-an-ended-one", False), ("", True), (None, True)], ids=["another", "untold", "own"])
def test_late_news_of_an_ended_job_is_not_that_of_one_made_anew_under_its_id(uid: str | None, counts: bool) -> None:
    """An answer may be under way while its run is forgotten: the new job would end by the old one's exit, and pay its time.

    An agent that tells no uid is believed, as ever.
    """
    stage = Stage()
    job = stage.job(stage.running())
    run = job.status.run
    assert run is not None
    ended, hours = Exit(ExitKind.EXITED, 3), Span.of(hours=10)
    told = job.uid if uid is None else uid
    late = RunReport(run.id, ReportState.GONE, hours, True, exit=ended, stored=True, slots=run.placement, uid=told)
    stage.term.scheduler.reported("n0", Reports((), "", {run.id: hours}, {run.id: told}))
    node = stage.term.scheduler.roster.get("n0")
    assert node is not None
    assert counts == (hours == node.ran[run.id])
    stage.term.scheduler.reported("n0", Reports((late,), ""))
    stage.term.round()
    assert (Phase.CLOSING if counts else Phase.RUNNING) == stage.phase(job.id)
    if not counts:
        stage.completed(job.id)
        assert Phase.COMPLETED == stage.phase(job.id)
