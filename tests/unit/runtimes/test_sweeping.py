"""`python -m runtimes.batch sweep` by the real program on the embedded default, killed at each of its steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import evolve

from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from core.history import pages, recall
from core.house import House, Terms
from ports.units import Instant
from ports.workloads import CHARGED, HOLD_VOIDED, ConditionStatus, Job, JobFilter, Phase
from runtimes.failpoints import FAILPOINT
from tests.contract.samples import a_job
from tests.e2e.gateways import ROOT, SOURCES

STEPS = (
    "blobs.put:before:1",
    "blobs.put:after:1",
    "blobs.put:after:2",
    "blobs.put:after:3",
    "workloads.delete:before",
    "workloads.delete:after",
)


@contextmanager
def house(folder: Path) -> Iterator[House]:
    unused = None
    with closing(open_gridweave(folder)) as database, closing(SqliteWorkloads(database)) as store:
        blobs = FolderBlobs(folder / "blobs", "http://gateway", b"s" * 32)
        yield House(store, unused, unused, unused, blobs, SystemClock(), unused, Terms(), unused)  # type: ignore[arg-type]


def swept(folder: Path, point: str = "", hours: str = "0") -> subprocess.CompletedProcess[str]:
    settings = {"STATE_DIR": str(folder), "ADMIN_TOKEN": "admin-token-of-the-tests", "JOBS_KEPT_HOURS": hours}
    env = {**os.environ, "PYTHONPATH": SOURCES, **settings, **({FAILPOINT: point} if point else {})}
    command = [sys.executable, "-m", "runtimes.batch", "sweep", "--json"]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)


def ended(name: str) -> Job:
    job = a_job(name)
    status = evolve(job.status, phase=Phase.COMPLETED, outcome=Phase.COMPLETED)
    for kind in (CHARGED, HOLD_VOIDED):
        status = status.with_condition(kind, ConditionStatus.TRUE, Instant(2_000))
    return evolve(job, status=status)


def test_one_that_is_killed_at_any_step_loses_nothing_and_lists_nothing_twice(tmp_path: Path) -> None:
    """A pod may be evicted at any moment; the next one goes on from what it left."""
    with house(tmp_path) as before:
        made = {job.id: before.workloads.create(job) for job in map(ended, ("job-1", "job-2"))}
    for point in STEPS:
        done = swept(tmp_path, point)
        assert -signal.SIGKILL == done.returncode, done.stderr
        with house(tmp_path) as after:
            assert ["job-2", "job-1"] == [job.id for job in pages(after, JobFilter(user="alice"), "", 10).jobs], point
    assert {"moved": 1, "unsettled": 0, "uploads": 0, "blobs": 0, "jobs": 0} == json.loads(swept(tmp_path).stdout)
    with house(tmp_path) as after:
        assert () == after.workloads.list().jobs
        assert ["job-2", "job-1"] == [job.id for job in pages(after, JobFilter(), "", 10).jobs]
        assert [evolve(job, version="") for job in made.values()] == [recall(after, name) for name in made]


def test_what_ended_lately_stays(tmp_path: Path) -> None:
    """By the setting, in hours."""
    with house(tmp_path) as before:
        job = before.workloads.create(evolve(ended("job-1"), created_at=SystemClock().now()))
    assert {"moved": 0, "unsettled": 0, "uploads": 0, "blobs": 0, "jobs": 0} == json.loads(swept(tmp_path, hours="1").stdout)
    with house(tmp_path) as after:
        assert job == after.workloads.get("job-1")
