"""What a run leaves while the blob store is away: it waits and says so, holds nothing, and is given up after the time that is set."""

from __future__ import annotations

import json

import pytest

from core.diagnostics import diagnostics_key
from core.manifest import manifest_key
from ports.lifecycle import GIVEN_UP, RESULT_PENDING
from ports.units import Span
from ports.workloads import RESULT_STORED, ConditionStatus, Exit, ExitKind, Job, Phase
from runtimes.http.bodies.views import verdict
from tests.simulation.stage import Stage
from tests.simulation.world import TERMS


def waiting(stage: Stage, kind: ExitKind = ExitKind.RETURNED) -> Job:
    """A job that has ended while the blob store is away."""
    job = stage.running()
    stage.clock.ms += 60_000
    stage.faults.down.add("blobs")
    stage.end(job, kind)
    stage.uploaded(job)  # it is tried
    stage.rounds(3, ms=1_000)
    return stage.job(job)


def test_a_result_that_can_not_be_stored_is_pending_and_holds_nothing() -> None:
    """Its user must see neither success nor silence, and nobody pays for the outage."""
    stage = Stage()
    before = {name: stage.free(name) for name in stage.machines}
    job = waiting(stage)
    told = job.status.condition(RESULT_STORED)
    assert told is not None
    assert (Phase.CLOSING, ConditionStatus.FALSE, RESULT_PENDING) == (job.status.phase, told.status, told.reason)
    assert "the blob store does not answer" in told.message
    assert (RESULT_PENDING, told.message) == verdict(job)
    run = job.status.run
    assert run is not None
    assert run.ran == Span(60_000)
    assert before == {name: stage.free(name) for name in stage.machines}
    stage.rounds(5, ms=1_000)
    assert job.version == stage.job(job.id).version, "told once, not in every round"


def test_it_is_stored_when_the_store_is_back() -> None:
    """An outage is not a loss."""
    stage = Stage()
    job = waiting(stage)
    stage.faults.down.clear()
    stage.uploaded(job.id)
    stage.rounds(4, ms=3_000)
    status = stage.job(job.id).status
    assert (Phase.COMPLETED, "Returned", True) == (status.phase, status.reason, status.holds(RESULT_STORED))
    assert json.loads(b"".join(stage.blobs.get(manifest_key(job.id))))["phase"] == "Completed"


@pytest.mark.parametrize(("kind", "reason"), [(ExitKind.RETURNED, RESULT_PENDING), (ExitKind.RAISED, "Raised")])
def test_after_the_time_that_is_set_it_is_given_up_although_there_is_no_store_for_a_manifest(kind: ExitKind, reason: str) -> None:
    """A job that is never over blocks its user's quota, his script and the archive."""
    stage = Stage()
    job = waiting(stage, kind)
    stage.clock.ms += TERMS.result_bound.ms + 1
    stage.rounds(6, ms=3_000)
    status = stage.job(job.id).status
    told = status.condition(RESULT_STORED)
    assert told is not None
    assert (Phase.FAILED, reason, GIVEN_UP) == (status.phase, status.reason, told.reason)
    if kind is ExitKind.RETURNED:
        assert "given up" in status.message
        assert "the blob store does not answer" in status.message


def test_a_result_that_its_node_could_not_keep_is_lost_and_says_why() -> None:
    """It is no fault of the user's function, which returned; its time is billed as that of every result that is lost."""
    stage = Stage()
    job = stage.running()
    stage.clock.ms += 60_000
    (run,) = stage.machines["n0"].runs.values()
    why = "The function returned, but its result is lost: the disk of its node is full."
    stage.machines["n0"].finish(run.id, Exit(ExitKind.RETURNED, message=why))
    run.result = None
    del stage.truth.produced[run.id]
    stage.uploaded(job)
    stage.rounds(4, ms=1_000)
    status = stage.job(job).status
    assert (Phase.FAILED, "ResultLost", why) == (status.phase, status.reason, status.message)
    assert Span(60_000) == status.runs[0].ran


def test_before_that_time_a_manifest_is_waited_for() -> None:
    """Whoever reads the bucket alone should find what happened, wherever that is possible."""
    stage = Stage()
    job = stage.running()
    stage.end(job)
    stage.uploaded(job)
    stage.faults.down.add("blobs")
    stage.rounds(6, ms=3_000)
    assert Phase.CLOSING is stage.phase(job)
    stage.faults.down.clear()
    stage.rounds(4, ms=3_000)
    assert Phase.COMPLETED is stage.phase(job)


def test_what_did_not_complete_leaves_diagnostics_and_what_did_leaves_none() -> None:
    """They are for whoever has nothing but the bucket, and no noise where all went well."""
    stage = Stage()
    good, bad = stage.running(), stage.running()
    stage.completed(good)
    stage.end(bad, ExitKind.RAISED)
    stage.uploaded(bad)
    stage.rounds(4)
    job = stage.job(bad)
    told = json.loads(b"".join(stage.blobs.get(diagnostics_key(job))))
    run = job.status.run
    assert run is not None
    assert (1, bad, "Failed", "Raised") == (told["schema"], told["id"], told["phase"], told["reason"])
    assert [(str(run.id), "Raised", run.ran.ms)] == [(each["run"], each["exit"]["kind"], each["ran"]) for each in told["runs"]]
    assert [run.placement[0].node] == [node["name"] for node in told["nodes"]]
    assert stage.blobs.stat(diagnostics_key(stage.job(good))) is None
