"""What an operator reads of each job that ended, and of what a node refused: whose, which run, how; and nothing of its user's words."""

from __future__ import annotations

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from core.callers import Caller
from core.jobs import cancel
from ports.cluster import Answer, Go
from ports.workloads import CHARGED, ConditionStatus, ExitKind, Job, Phase, RunId
from runtimes.batch.endings import note_end, note_refusal
from tests.simulation.stage import Stage

SECRET = "a-secret-of-the-user"


def said_of(job: Job) -> list[dict[str, object]]:
    with capture_logs() as lines:
        note_end(job)
    assert SECRET not in repr(lines)
    return [dict(line) for line in lines]


@pytest.mark.parametrize("kind", sorted(set(ExitKind) - {ExitKind.NEVER_RAN, ExitKind.KILLED, ExitKind.RUNNER_LOST}))
def test_whatever_has_ended_has_one_line(kind: ExitKind) -> None:
    """An operator is called with the name of a job, of a run or of a user."""
    stage = Stage()
    name = stage.running()
    stage.end(name, kind)
    stage.uploaded(name)
    stage.rounds(4)
    job = stage.job(name)
    run = job.status.runs[0]
    assert run.exit is not None
    told = evolve(job, status=evolve(job.status, runs=(evolve(run, exit=evolve(run.exit, message=SECRET)),), message=SECRET))
    (line,) = said_of(told)
    assert (name, f"{name}/1", "ann") == (line["workload"], line["run"], line["user"])
    assert (job.status.phase.value.lower(), str(kind)) == (line["event"], line["exit"])


def test_what_was_lost_is_a_warning_with_its_nodes() -> None:
    """It is the operator's fault, if it is anybody's."""
    stage = Stage()
    name = stage.running()
    stage.machines["n0"].power_off()
    stage.rounds(30, ms=5_000)
    (line,) = said_of(stage.job(name))
    assert ("lost", "warning", ["n0"]) == (line["event"], line["log_level"], line["nodes"])


def test_a_result_that_a_node_lost_is_a_warning_too() -> None:
    """Its function has returned; somebody has to look after a disk."""
    stage = Stage()
    name = stage.running()
    stage.end(name)
    stage.uploaded(name)
    stage.rounds(4)
    job = stage.job(name)
    (line,) = said_of(evolve(job, status=evolve(job.status, phase=Phase.FAILED, reason="ResultLost", message="Its disk is full.")))
    told = (line["event"], line["log_level"], line["nodes"], line["why"])
    assert ("lost", "warning", ["n0"], "Its disk is full.") == told


def test_what_never_ran_has_a_line_too() -> None:
    stage = Stage()
    name = stage.submitted()
    cancel(stage.house, Caller("ann"), name)
    stage.rounds(4)
    (line,) = said_of(stage.job(name))
    assert ("cancelled", "", 0) == (line["event"], line["run"], line["ran_ms"])


def test_what_has_not_ended_has_none() -> None:
    stage = Stage()
    assert [] == said_of(stage.job(stage.running()))


def test_a_charge_that_was_refused_is_an_alarm() -> None:
    """The books are wrong then, and somebody must look."""
    stage = Stage()
    name = stage.running()
    stage.completed(name)
    job = stage.job(name)
    assert Phase.COMPLETED is job.status.phase
    alarmed = job.status.with_condition(CHARGED, ConditionStatus.FALSE, stage.clock.now(), "Refused", "a total is lower than before")
    assert ["info", "error"] == [line["log_level"] for line in said_of(evolve(job, status=alarmed))]


def test_what_a_node_refused_is_told_with_run_and_user() -> None:
    """Else a job that is tried again and again leaves no trace."""
    with capture_logs() as lines:
        note_refusal("n0", Go(RunId("job-1", 2)), Answer(False, "not ready"), "ann")
    (line,) = lines
    assert ("job-1", "job-1/2", "ann", "n0", "Go", "not ready") == tuple(
        line[key] for key in ("workload", "run", "user", "node", "command", "why")
    )
