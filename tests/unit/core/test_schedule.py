"""The scheduler's daily work: placing, launching, ending, settling, and giving VRAM back when it may."""

from __future__ import annotations

import pytest
from attrs import evolve

from core.callers import Caller, Plan
from core.charges import cost
from core.jobs import cancel
from core.nodes import NodeChange, declare
from ports.cluster import Answer, Prepare
from ports.units import Credits, Span
from ports.workloads import CHARGED, HOLD_VOIDED, LOW_BALANCE, RESULT_STORED, ConditionStatus, Exit, ExitKind, Phase
from tests.simulation.actions import Action
from tests.simulation.stage import ONE_NODE, TWO_NODES, Stage
from tests.simulation.world import GB

MIXED = (*ONE_NODE, ("n5", "provider:zoe", "L4", 24 * GB, 1))


def test_a_job_goes_from_submit_to_completed_and_leaves_nothing_booked() -> None:
    """The whole way through the house, with result, bill and an empty node at the end."""
    stage = Stage()
    job = stage.running(8)
    assert (32, 40) == (stage.free("n0", 0), stage.free("n0", 1))
    stage.clock.ms += 90_000
    stage.completed(job)
    status = stage.job(job).status
    assert (Phase.COMPLETED, "Returned") == (status.phase, status.reason)
    assert all(status.holds(each) for each in (RESULT_STORED, CHARGED, HOLD_VOIDED))
    assert status.result is not None
    assert status.run is not None
    assert Span(90_000) == status.run.ran
    assert cost(status.run.price, Span(90_000)) == status.charged
    assert Credits(0) == stage.money.account("user:ann").held
    assert (40, 40) == (stage.free("n0", 0), stage.free("n0", 1))
    assert {} == stage.machines["n0"].runs


def test_a_job_made_anew_under_an_ended_ones_name_is_another_one() -> None:
    """Its predecessor's end, still told by the node, is not its own: it waits until that is forgotten, and runs itself."""
    stage = Stage()
    ann, request = stage.user("ann"), stage.request(8, key="again")
    before, uids, charges = stage.money.account("user:ann").balance.micro, [], []
    for _ in range(6):  # more often than a run may be tried again
        made = stage.hand_in(ann, request).job
        stage.rounds(6, ms=1_000)
        stage.ready(made.id)
        stage.rounds(2)
        assert (Phase.RUNNING, 1) == (stage.phase(made.id), stage.job(made.id).status.attempt)
        stage.clock.ms += 90_000
        stage.end(made.id)
        stage.uploaded(made.id)
        while stage.phase(made.id) is not Phase.COMPLETED:
            stage.rounds()
        job = stage.job(made.id)
        uids.append(job.uid)
        charges.append(job.status.charged)
        stage.house.workloads.delete(job)  # as soon as it may be: its node has not been told to forget it
        for told in (stage.truth.starts, stage.truth.ran, stage.truth.produced):
            told.clear()  # it goes by names alone
    assert 6 == len(set(uids))
    assert [charges[0]] * 6 == charges
    assert before - sum(each.micro for each in charges) == stage.money.account("user:ann").balance.micro


def test_what_an_ended_one_of_that_name_ran_is_not_charged_to_the_next() -> None:
    """The node's record still tells of it for a while, under the same name."""
    stage = Stage()
    ann, request, ran = stage.user("ann"), stage.request(8, key="again"), []
    for ms in (90_000, 1_000):
        made = stage.hand_in(ann, request).job
        stage.rounds(6, ms=1_000)
        stage.ready(made.id)
        stage.rounds(2)
        stage.clock.ms += ms
        stage.rounds()
        stage.end(made.id)
        stage.uploaded(made.id)
        while stage.phase(made.id) is not Phase.COMPLETED:
            stage.rounds()
        job = stage.job(made.id)
        assert job.status.run is not None
        ran.append(job.status.run.ran)
        stage.house.workloads.delete(job)
        for told in (stage.truth.starts, stage.truth.ran, stage.truth.produced):
            told.clear()  # it goes by names alone
    assert [Span(90_000), Span(1_000)] == ran


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(ExitKind.RAISED, "Raised"), (ExitKind.EXITED, "Exited"), (ExitKind.SIGNALLED, "Signalled"), (ExitKind.KILLED, "MaxRuntime")],
)
def test_how_a_run_ends_decides_phase_and_reason(kind: ExitKind, reason: str) -> None:
    stage = Stage()
    job = stage.running()
    stage.end(job, kind)
    stage.uploaded(job)
    stage.rounds(4)
    status = stage.job(job).status
    assert (Phase.FAILED, reason) == (status.phase, status.reason)
    assert (kind is ExitKind.RAISED) == (status.result is not None and status.result.raised)


def test_vram_is_free_as_soon_as_the_processes_are_gone_whatever_else_is_down() -> None:
    """Nothing waits for S3 or the credit service while it holds a GPU."""
    stage = Stage()
    job = stage.running(40)
    stage.faults.down |= {"blobs", "credits", "metering"}
    stage.end(job)
    stage.rounds()
    assert (Phase.CLOSING, 40) == (stage.phase(job), stage.free("n0"))
    stage.rounds(5, ms=3_000)
    assert Phase.CLOSING == stage.phase(job)
    stage.faults.down.clear()
    stage.uploaded(job)
    stage.rounds(4, ms=3_000)
    assert Phase.COMPLETED == stage.phase(job)


def test_first_come_first_served_and_the_next_is_placed_when_room_comes() -> None:
    stage = Stage()
    first, second = stage.running(40), stage.running(40)
    waits = []
    for _ in range(2):
        stage.clock.ms += 1
        waits.append(stage.submitted(40))
    stage.rounds(2)
    assert [Phase.PENDING, Phase.PENDING] == [stage.phase(each) for each in waits]
    assert "free" in stage.job(waits[0]).status.waiting
    stage.completed(first)
    assert [Phase.ALLOCATED, Phase.PENDING] == [stage.phase(each) for each in waits]
    stage.completed(second)
    assert Phase.ALLOCATED == stage.phase(waits[1])


def test_a_paid_user_gets_providers_hardware_first_and_a_free_user_never() -> None:
    stage = Stage(MIXED)
    paid, free = stage.submitted(8, stage.user("pat", plan=Plan.PAID)), stage.submitted(8)
    stage.rounds(2)
    assert ("n5", "n0") == (stage.placed(paid), stage.placed(free))


def test_an_environment_that_can_not_be_built_fails_without_another_attempt() -> None:
    stage = Stage()
    job = stage.submitted()
    stage.rounds(2)
    stage.machines["n0"].work(0, 15)
    stage.rounds(2)
    stage.uploaded(job)
    stage.rounds(3)
    status = stage.job(job).status
    assert (Phase.FAILED, "SetupFailed", 1, Credits(0)) == (status.phase, status.reason, status.attempt, status.charged)


def test_a_process_that_dies_before_go_is_another_attempt() -> None:
    """Nothing of the user's has run: he need not know."""
    stage = Stage()
    job = stage.submitted()
    stage.rounds(2)
    stage.machines["n0"].kill_process(0)
    stage.machines["n0"].work(0, 0)
    stage.rounds(3)
    assert (Phase.ALLOCATED, 2) == (stage.phase(job), stage.job(job).status.attempt)
    stage.ready(job)
    stage.rounds(2)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)


def test_attempts_that_never_start_come_to_an_end() -> None:
    stage = Stage()
    job = stage.submitted()
    for _ in range(10):
        stage.rounds(2, ms=1_000)
        stage.machines["n0"].kill_process(0)
        stage.machines["n0"].work(0, 0)
    status = stage.job(job).status
    assert (Phase.FAILED, "NeverStarted", 4) == (status.phase, status.reason, status.attempt)


def test_a_refused_prepare_is_asked_again_before_the_attempt_is_given_up() -> None:
    """What is still ending on that node needs a moment; and `retries` are for what does not get better."""
    stage = Stage(TWO_NODES)
    job = stage.submitted()
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.term.round()
    machine = stage.machines[stage.placed(job)]
    real, asked = machine._prepare, []

    def full(command: Prepare) -> Answer:
        asked.append(command.run)
        return Answer(False, "full") if len(asked) <= 2 else real(command)

    machine._prepare = full  # type: ignore[method-assign]
    stage.rounds(4, ms=6_000)
    assert 3 <= len(asked)
    assert 1 == stage.job(job).status.attempt
    for each in stage.machines.values():
        each._prepare = lambda command: Answer(False, "no such thing")  # type: ignore[method-assign]
    other = stage.submitted(40, gpus=2)
    stage.rounds(6, ms=6_000)
    assert 2 <= stage.job(other).status.attempt


def test_go_is_repeated_until_it_is_obeyed() -> None:
    """The command that was lost is not told to anybody."""
    stage = Stage()
    job = stage.submitted()
    stage.rounds(2)
    stage.ready(job)
    for name in stage.machines:
        stage.term.poll(name)
    stage.term.events(10)
    stage.term.round()
    stage.term.lines["n0"].outbox.clear()
    assert Phase.RUNNING == stage.phase(job)
    stage.rounds(2)
    assert not stage.machines["n0"].runs[stage.job(job).status.runs[0].id].started
    stage.rounds(2, ms=5_000)
    assert stage.machines["n0"].runs[stage.job(job).status.runs[0].id].started


def test_a_gang_is_prepared_everywhere_started_together_and_ended_by_its_last_one() -> None:
    stage = Stage(TWO_NODES)
    job = stage.running(40, gpus=2, workers=2)
    run = stage.job(job).status.runs[0]
    assert {"n0", "n1"} == {slot.node for slot in run.placement}
    stage.machines["n0"].finish(run.id, Exit(ExitKind.RETURNED))
    stage.rounds(2)
    assert Phase.RUNNING == stage.phase(job)
    stage.clock.ms += 7_000
    stage.machines["n1"].finish(run.id, Exit(ExitKind.RETURNED))
    stage.uploaded(job)
    stage.rounds(4)
    status = stage.job(job).status
    assert (Phase.COMPLETED, Span(7_000)) == (status.phase, status.runs[0].ran)
    assert {} == stage.machines["n1"].runs


def test_a_rank_that_fails_ends_the_others_and_is_the_reason() -> None:
    """The others were killed; nobody wants to read that."""
    stage = Stage(TWO_NODES)
    job = stage.running(40, gpus=2, workers=2)
    run = stage.job(job).status.runs[0]
    stage.machines["n1"].finish(run.id, Exit(ExitKind.EXITED, code=3))
    stage.rounds(2)
    stage.machines["n0"].work(0, 1)
    stage.uploaded(job)
    stage.rounds(4)
    status = stage.job(job).status
    assert (Phase.FAILED, "Exited") == (status.phase, status.reason)
    assert {} == stage.machines["n0"].runs


def test_a_gang_of_which_one_node_never_heard_ends_when_it_is_cancelled() -> None:
    """That node has nothing to report, and never will."""
    stage = Stage(TWO_NODES)
    job = stage.submitted(40, gpus=2, workers=2)
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.term.round()
    stage.term.lines["n1"].outbox.clear()
    stage.term.deliver("n0")
    cancel(stage.house, Caller("ann"), job)
    stage.rounds(6, ms=1_000)
    assert Phase.CANCELLED == stage.phase(job)
    assert (40, 40) == (stage.free("n0"), stage.free("n1"))


def test_a_drained_node_finishes_what_it_has_and_gets_nothing_new() -> None:
    stage = Stage()
    job = stage.running()
    declare(stage.house, NodeChange("n0", drain=True))
    stage.rounds(2, ms=2_000)
    later = stage.submitted()
    stage.rounds(3, ms=2_000)
    assert Phase.PENDING == stage.phase(later)
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)
    declare(stage.house, NodeChange("n0", drain=False))
    stage.rounds(3, ms=2_000)
    assert Phase.ALLOCATED == stage.phase(later)


def test_nobody_waits_behind_a_job_that_no_node_here_can_hold() -> None:
    """Its node may be drained for a week."""
    stage = Stage((*ONE_NODE, ("n7", "org", "H100", 80 * GB, 1)))
    declare(stage.house, NodeChange("n7", drain=True))
    stage.rounds(2, ms=2_000)
    big, small = stage.submitted(80), stage.submitted(8)
    stage.rounds(2)
    assert (Phase.PENDING, Phase.ALLOCATED) == (stage.phase(big), stage.phase(small))
    assert "it waits for one" in stage.job(big).status.waiting


def test_a_node_whose_owner_nobody_has_said_gets_work_once_somebody_has() -> None:
    stage = Stage((("n0", "", "A100", 40 * GB, 1),))
    job = stage.submitted()
    stage.rounds(3, ms=1_000)
    assert Phase.PENDING == stage.phase(job)
    record = stage.records.get("n0")
    assert record is not None
    assert "PUT /v1/admin/nodes" in record.status.reason
    declare(stage.house, NodeChange("n0", owner="org"))
    stage.rounds(3, ms=2_000)
    assert Phase.ALLOCATED == stage.phase(job)


def test_a_job_whose_users_balance_is_gone_is_ended() -> None:
    stage = Stage()
    job = stage.running()
    stored = stage.job(job)
    stage.jobs.replace(evolve(stored, status=stored.status.with_condition(LOW_BALANCE, ConditionStatus.TRUE, stage.clock.now())))
    stage.rounds(2)
    stage.machines["n0"].work(0, 1)
    stage.uploaded(job)
    stage.rounds(4)
    status = stage.job(job).status
    assert (Phase.FAILED, "BalanceExhausted") == (status.phase, status.reason)


def test_a_permission_to_upload_is_renewed_before_it_expires_and_after_a_clock_that_jumped() -> None:
    """A run of two hours leaves its result as well as one of two seconds."""
    for jump in (False, True):
        stage = Stage()
        job = stage.running()
        if jump:
            stage.clock.jumped += 3_700_000
        else:
            stage.rounds(30, ms=240_000)
        stage.end(job)
        stage.uploaded(job)
        stage.rounds(3, ms=6_000)
        stage.uploaded(job)
        stage.rounds(4, ms=6_000)
        assert Phase.COMPLETED == stage.phase(job)


def test_forget_is_repeated_until_the_agent_has_heard_it() -> None:
    """Else a node's disk keeps what a lost message was about until its agent is started anew."""
    stage = Stage()
    job = stage.running()
    stage.end(job)
    stage.uploaded(job)
    stage.rounds(2)
    for _ in range(4):
        stage.rounds()
        stage.term.lines["n0"].outbox.clear()
    stage.rounds(3, ms=6_000)
    assert Phase.COMPLETED == stage.phase(job)
    assert {} == stage.machines["n0"].runs
