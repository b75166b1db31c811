"""One pure question: what is to be done next for this job?"""

from __future__ import annotations

import pytest
from attrs import evolve

from core import next_step as step
from core.house import Terms
from core.next_step import NodeView, next_step
from ports.cluster import ReportState, RunReport
from ports.tariffs import Price
from ports.units import Instant, Mib, Span
from ports.workloads import (
    FUNDED,
    LOW_BALANCE,
    RESULT_STORED,
    Ask,
    BlobRef,
    ConditionStatus,
    Exit,
    ExitKind,
    Job,
    JobSpec,
    JobStatus,
    Phase,
    Run,
    RunId,
    RunState,
    Slot,
)

BLOB = BlobRef("0" * 64, 1)
NOW = Instant(1_000_000)
TERMS = Terms()
ID = RunId("job", 1)
GONE = Exit(ExitKind.RETURNED)


def job(phase: Phase, state: RunState | None = None, *, funded: ConditionStatus = ConditionStatus.TRUE, **status: object) -> Job:
    made = JobStatus(phase=phase, **status).with_condition(FUNDED, funded, NOW)  # type: ignore[arg-type]
    if state is not None:
        ended = {"ended_at": NOW, "exit": GONE} if state is RunState.ENDED else {}
        made = made.with_run(Run(ID, state, (Slot("n1", 0, Mib(8)),), 1, Price(1, ()), NOW, **ended))  # type: ignore[arg-type]
    return Job("job", "uid", Instant(NOW.ms - 1000), JobSpec("ann", "free", "f", Ask(Mib(8)), BLOB, BLOB), made)


def report(state: ReportState, **more: object) -> RunReport:
    return RunReport(ID, state, **more)  # type: ignore[arg-type]


def ask(of: Job, view: NodeView | None = None) -> step.Step:
    return next_step(of, {"n1": view} if view is not None else {}, NOW, TERMS)


def asked(state: ReportState | None = None, **more: object) -> NodeView:
    return NodeView(answered=True, report=report(state, **more) if state is not None else None)


SILENT = NodeView(answered=False, silent=Span(1_000))
LONG_SILENT = NodeView(answered=False, silent=TERMS.lost_after + Span(1), last_ran=Span(5_000))


@pytest.mark.parametrize(
    ("of", "view", "expected"),
    [
        (job(Phase.PENDING), None, step.Queue()),
        (job(Phase.PENDING, funded=ConditionStatus.UNKNOWN), None, step.Wait()),
        (job(Phase.PENDING, funded=ConditionStatus.FALSE), None, step.Fund()),
        (job(Phase.ALLOCATED, RunState.BOOKED), asked(), step.Prepare(("n1",))),
        (job(Phase.ALLOCATED, RunState.BOOKED), asked(ReportState.PREPARING), step.Wait()),
        (job(Phase.ALLOCATED, RunState.BOOKED), asked(ReportState.READY), step.Start()),
        (job(Phase.ALLOCATED, RunState.BOOKED), SILENT, step.Wait()),
        (job(Phase.RUNNING, RunState.RUNNING), asked(ReportState.READY), step.Go(("n1",))),
        (job(Phase.RUNNING, RunState.RUNNING), asked(ReportState.RUNNING, started=True), step.Wait()),
        (job(Phase.RUNNING, RunState.RUNNING), SILENT, step.Wait()),
        (job(Phase.RUNNING, RunState.RUNNING, cancel=NOW), asked(ReportState.RUNNING, started=True), step.Kill(("n1",))),
        (job(Phase.ALLOCATED, RunState.BOOKED, cancel=NOW), asked(ReportState.PREPARING), step.Kill(("n1",))),
        (job(Phase.CLOSING), None, step.Close()),
        (job(Phase.CLOSING, RunState.ENDED), asked(ReportState.GONE, exit=GONE), step.Wait()),
        (job(Phase.CLOSING, RunState.ENDED), asked(), step.NothingToStore("Lost")),
        (job(Phase.COMPLETED, RunState.ENDED), asked(), step.Wait()),
    ],
)
def test_each_state_has_one_next_step(of: Job, view: NodeView | None, expected: step.Step) -> None:
    """Recovery is this table and nothing else."""
    assert expected == ask(of, view)


def test_a_submit_left_half_done_is_taken_up_after_a_while() -> None:
    """A gateway that died between create and hold must not leave a job in limbo."""
    of = evolve(job(Phase.PENDING, funded=ConditionStatus.UNKNOWN), created_at=Instant(NOW.ms - TERMS.funding_bound.ms - 1))
    assert step.Fund() == ask(of)


def test_a_run_that_was_started_and_is_unknown_to_a_swept_agent_is_lost_and_never_started_again() -> None:
    """Nobody can prove that the user's code has not run; running it twice is worse than losing it."""
    found = ask(job(Phase.RUNNING, RunState.RUNNING), asked())
    assert isinstance(found, step.End)
    assert (ExitKind.RUNNER_LOST, ()) == (found.exit.kind, found.lost)


def test_a_run_whose_node_stays_silent_is_billed_to_the_last_proof_of_life_and_quarantined() -> None:
    """Its processes may still be alive there, so its VRAM is not free; but its user waits no longer."""
    found = ask(job(Phase.RUNNING, RunState.RUNNING), LONG_SILENT)
    assert isinstance(found, step.End)
    assert (ExitKind.RUNNER_LOST, Span(5_000), ("n1",)) == (found.exit.kind, found.ran, found.lost)


def test_a_booked_run_on_a_lost_node_is_tried_elsewhere() -> None:
    """`go` was never given, so nothing of the user's can have started."""
    found = ask(job(Phase.ALLOCATED, RunState.BOOKED), LONG_SILENT)
    assert isinstance(found, step.Requeue)
    assert found.lost


def test_a_warm_process_that_died_before_go_is_another_attempt_not_a_failure() -> None:
    gone = asked(ReportState.GONE, exit=Exit(ExitKind.NEVER_RAN))
    for of in (job(Phase.ALLOCATED, RunState.BOOKED), job(Phase.RUNNING, RunState.RUNNING)):
        assert isinstance(ask(of, gone), step.Requeue)


def test_one_of_several_processes_that_was_ended_before_its_go_was_not_lost() -> None:
    """Whoever cancelled, or ran dry, is not told of a broken node."""
    slots = (Slot("n1", 0, Mib(8)), Slot("n2", 0, Mib(8)))
    views = {
        "n1": asked(ReportState.GONE, exit=Exit(ExitKind.RETURNED), started=True),
        "n2": asked(ReportState.GONE, exit=Exit(ExitKind.NEVER_RAN, message="It was ended on request.")),
    }
    running = job(Phase.RUNNING, RunState.RUNNING)
    assert running.status.run is not None
    spread = evolve(running, status=running.status.with_run(evolve(running.status.run, placement=slots)))
    dry = evolve(spread, status=spread.status.with_condition(LOW_BALANCE, ConditionStatus.TRUE, NOW))
    for of, kind in (
        (spread, ExitKind.RUNNER_LOST),
        (evolve(spread, status=evolve(spread.status, cancel=NOW)), ExitKind.KILLED),
        (dry, ExitKind.KILLED),
    ):
        found = next_step(of, views, NOW, TERMS)
        assert isinstance(found, step.End)
        assert kind is found.exit.kind


def test_attempts_that_never_start_come_to_an_end() -> None:
    """Else a node whose processes die at once would be tried for ever."""
    found = ask(job(Phase.PENDING, attempt=TERMS.retries + 1))
    assert isinstance(found, step.CloseUnplaced)
    assert (Phase.FAILED, "NeverStarted") == (found.outcome, found.reason)


def test_an_environment_that_can_not_be_built_ends_the_job_without_another_try() -> None:
    found = ask(job(Phase.ALLOCATED, RunState.BOOKED), asked(ReportState.GONE, exit=Exit(ExitKind.SETUP_FAILED, message="no such package")))
    assert isinstance(found, step.End)
    assert (ExitKind.SETUP_FAILED, Span(0)) == (found.exit.kind, found.ran)


def test_a_cancelled_job_that_nobody_prepared_yet_needs_no_agent_to_end() -> None:
    assert isinstance(ask(job(Phase.ALLOCATED, RunState.BOOKED, cancel=NOW), asked()), step.Requeue)
    found = ask(job(Phase.PENDING, cancel=NOW))
    assert isinstance(found, step.CloseUnplaced)
    assert Phase.CANCELLED == found.outcome


def test_a_run_without_money_is_killed_where_it_runs() -> None:
    of = job(Phase.RUNNING, RunState.RUNNING)
    of = evolve(of, status=of.status.with_condition(LOW_BALANCE, ConditionStatus.TRUE, NOW))
    assert step.Kill(("n1",)) == ask(of, asked(ReportState.RUNNING, started=True))


def test_a_result_that_is_never_stored_is_given_up_after_the_documented_time() -> None:
    of = job(Phase.CLOSING, RunState.ENDED)
    run = of.status.runs[0]
    old = evolve(of, status=of.status.with_run(evolve(run, ended_at=Instant(NOW.ms - TERMS.result_bound.ms - 1))))
    assert step.Wait() == ask(of, SILENT)
    assert step.NothingToStore("GivenUp") == ask(old, SILENT)


def test_a_stored_result_leads_to_closing() -> None:
    of = job(Phase.CLOSING, RunState.ENDED)
    stored = asked(ReportState.GONE, exit=GONE, stored=True)
    assert isinstance(ask(of, stored), step.Stored)
    of = evolve(of, status=of.status.with_condition(RESULT_STORED, ConditionStatus.TRUE, NOW))
    assert step.Close() == ask(of, stored)


def test_a_node_declared_gone_loses_its_runs_at_once() -> None:
    found = ask(job(Phase.RUNNING, RunState.RUNNING), NodeView(answered=False, gone=True, last_ran=Span(7)))
    assert isinstance(found, step.End)
    assert Span(7) == found.ran
