"""Retention: by age and by what became of the job, and never of what is used."""

from __future__ import annotations

import json

import pytest

from core.diagnostics import diagnostics_key
from core.house import House
from core.manifest import manifest_key
from core.names import upload_key
from core.retention import KEPT, OFFERED, Fate, Retention, may_go
from core.sweep import sweep
from ports.blobs import endpoint_log_key, input_key, log_key, run_prefix
from ports.units import Span
from ports.workloads import ExitKind
from tests.simulation.stage import Stage

DAY = Span.of(hours=24)


def days(number: int) -> Span:
    return Span(DAY.ms * number)


def later(stage: Stage, by: Span) -> House:
    """The house as it is then; only what the blob store keeps matters by that time."""
    stage.clock.ms += by.ms
    return stage.house


def test_an_upload_that_no_submit_used_goes_after_a_day_and_not_before() -> None:
    """Else every abandoned submit would fill the disk for ever."""
    stage, key = Stage(), upload_key("ann", "a" * 64)
    stage.blobs.put(key, [b"x"])
    assert OFFERED < DAY
    sweep(later(stage, DAY))
    assert stage.blobs.stat(key) is not None
    assert sweep(later(stage, Span(1))).uploads > 0
    assert stage.blobs.stat(key) is None


def left_by(stage: Stage, job: str) -> dict[str, str]:
    """What it leaves in the blob store, by kind."""
    keys = {"log": log_key(job, 1, 0, 0), "result": f"{run_prefix(job, 1)}result", "args": input_key(job, stage.job(job).uid, "args")}
    for key in keys.values():
        stage.blobs.put(key, [b"x"])
    return keys | {"manifest": manifest_key(job), "diagnostics": diagnostics_key(stage.job(job))}


def kept_of(stage: Stage, keys: dict[str, str]) -> set[str]:
    return {kind for kind, key in keys.items() if stage.blobs.stat(key) is not None}


def test_nothing_of_a_live_job_ever_goes() -> None:
    """It may wait in the queue, or run, for longer than anything is kept."""
    stage = Stage()
    job = stage.running()
    keys = left_by(stage, job)
    assert 0 == sweep(later(stage, days(10_000))).blobs
    assert {"log", "result", "args"} == kept_of(stage, keys)


def test_a_failed_jobs_diagnostics_outlive_a_completed_jobs_logs() -> None:
    """The failure is what somebody looks into, weeks later."""
    stage = Stage()
    good, bad = stage.running(), stage.running()
    stage.completed(good)
    stage.end(bad, ExitKind.RAISED)
    stage.uploaded(bad)
    stage.rounds(4)
    of_good, of_bad = left_by(stage, good), left_by(stage, bad)
    assert 0 == sweep(later(stage, days(30))).blobs
    sweep(later(stage, Span(60_000)))
    assert {"manifest"} == kept_of(stage, of_good)
    assert set(of_bad) == kept_of(stage, of_bad)
    sweep(later(stage, days(60)))
    assert set() == kept_of(stage, of_good) | kept_of(stage, of_bad)


def test_of_a_job_without_an_object_the_manifest_tells() -> None:
    """Objects are archived and deleted earlier than bytes."""
    stage = Stage()
    for job_id, phase in (("job-good", b"Completed"), ("job-bad", b"Failed")):
        stage.blobs.put(log_key(job_id, 1, 0, 0), [b"x"])
        stage.blobs.put(manifest_key(job_id), [b'{"phase": "' + phase + b'"}'])
    stage.blobs.put(log_key("job-torn", 1, 0, 0), [b"x"])
    sweep(later(stage, days(31)))
    assert ["job-bad", "job-torn"] == sorted(info.key.split("/")[1] for info in stage.blobs.list("jobs/") if "/logs/" in info.key)
    sweep(later(stage, days(60)))
    assert [] == list(stage.blobs.list("jobs/"))


def test_a_job_whose_id_is_hashed_is_swept_by_what_its_manifest_names() -> None:
    """From the name of its folder alone nobody can tell whether it lives."""
    stage = Stage()
    live, ended = "../a job", "another/1"
    for job_id in (live, ended):
        stage.blobs.put(log_key(job_id, 1, 0, 0), [b"x"])
    stage.blobs.put(manifest_key(ended), [json.dumps({"id": ended, "phase": "Failed"}).encode()])
    sweep(later(stage, days(10_000)))
    assert [log_key(live, 1, 0, 0)] == [info.key for info in stage.blobs.list("jobs/")]


@pytest.mark.parametrize(
    "key",
    [
        "models/llama/weights",
        "archive/jobs/2026",
        "jobs/job-a/notes.txt",
        "jobs/job-a/1/other",
        "jobs/job-a/x/result",
        "endpoints/e/logs/0",
        "endpoints/e/logs/000000000/x",
        "endpoints/e/weights/000000000",
        "endpoints/logs/000000000",
        "jobs/x",
    ],
)
def test_what_is_not_known_is_never_swept(key: str) -> None:
    """Models and archives, and what others keep in the same bucket."""
    assert not any(may_go(key, days(100_000), fate, KEPT) for fate in Fate)


def test_an_endpoints_log_goes_chunk_by_chunk_at_the_age_of_a_failed_jobs() -> None:
    """It may serve for years: its log would fill the bucket, and what is younger tells why it fails today."""
    stage = Stage()
    stage.blobs.put(endpoint_log_key("chat", 0), [b"x"])
    stage.clock.ms += days(60).ms
    stage.blobs.put(endpoint_log_key("chat", 1), [b"x"])
    assert 0 == sweep(later(stage, days(30))).blobs
    assert (1, 0) == ((swept := sweep(later(stage, Span(60_000)))).blobs, swept.jobs)
    assert ["endpoints/chat/logs/000000001"] == [info.key for info in stage.blobs.list("endpoints/")]


@pytest.mark.parametrize("fate", [Fate.COMPLETED, Fate.FAILED, Fate.UNKNOWN])
def test_for_ever_is_for_ever(fate: Fate) -> None:
    """Where an operator has rules of his own in the bucket."""
    for key in ("jobs/job-a/1/result", "jobs/job-a/manifest.json", endpoint_log_key("chat", 0)):
        assert not may_go(key, days(100_000), fate, Retention(completed=None, failed=None))
