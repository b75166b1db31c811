"""A gateway that was killed starts again over 10,000 unfinished jobs: how long until it runs new work, and by how many calls.

    python -m benchmarks.restart [--jobs 10000]

The jobs wait for a kind of GPU that is not there. Ready is when a new job has been submitted, run and closed. The calls to the
store may grow by pages, those to the cluster by nodes, and none by jobs.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections import Counter
from pathlib import Path

import gridweave as gw
from attrs import evolve

from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from benchmarks.standing import ADMIN, Standing, answers, finish, say, standing, start_gateway
from ports.units import Instant, Mib
from ports.workloads import FUNDED, Ask, BlobRef, ConditionStatus, Job, JobFilter, JobSpec, JobStatus, Phase
from runtimes.failpoints import LOG

NO_MACHINE = "No node that is here now could hold it; it waits for one."
PAGE = 500  # jobs, by which they are read at the start


def one() -> int:
    return 1


one.__module__ = "__main__"


def store(on: Standing, count: int) -> None:
    """Jobs that wait, as if they had been submitted one after another and had been told why they wait."""
    database = open_gridweave(on.folder / "state")
    workloads = SqliteWorkloads(database)
    nothing, ask = BlobRef("0" * 64, 0), Ask(Mib(80 * 1024), model="H100-80GB")
    for number in range(count):
        at = Instant(1_700_000_000_000 + number)
        spec = JobSpec("bench", "free", "waits", ask, nothing, nothing, billed=False)
        status = JobStatus().with_condition(FUNDED, ConditionStatus.TRUE, at, "NotBilled")
        status = evolve(status, waiting=NO_MACHINE)
        workloads.create(Job(f"job-{number:020d}", f"uid-{number}", at, spec, status))
    workloads.close()
    database.close()


def unfinished(on: Standing) -> int:
    database = open_gridweave(on.folder / "state")
    workloads, cursor, found = SqliteWorkloads(database), "", 0
    while True:
        page = workloads.list(JobFilter(phases=frozenset({Phase.PENDING, Phase.ALLOCATED, Phase.RUNNING})), cursor, PAGE)
        found, cursor = found + len(page.jobs), page.cursor
        if not cursor:
            break
    workloads.close()
    database.close()
    return found


def restart(on: Standing, calls: Path) -> float:
    """Seconds from its start until it has run new work."""
    began = time.perf_counter()
    process = start_gateway({**on.env, LOG: str(calls)}, on.folder)
    try:
        answers(f"{on.gateway}/healthz", process, on.folder / "gateway.log")
        gw.use(gw.Client(on.gateway, ADMIN))
        if gw.function(vram="1GB")(one).spawn().result() != 1:
            raise SystemExit("a wrong result")
        return time.perf_counter() - began
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    jobs: int = parser.parse_args().jobs
    with standing() as on:
        os.killpg(on.pid, signal.SIGKILL)
        calls = on.folder / "calls"
        empty = restart(on, calls)
        say(f"ready in {empty:.2f} s with nothing stored")
        store(on, jobs)
        calls.unlink()
        took = restart(on, calls)
        made = Counter(line.partition("@")[0] for line in calls.read_text().split())
        left = unfinished(on)
    if left != jobs:
        raise SystemExit(f"{left} of {jobs} jobs are left")
    for name, times in sorted(made.items()):
        say(f"{times:6d} {name}")
    say(f"ready in {took:.2f} s with {jobs} unfinished jobs, by {sum(made.values())} calls")
    finish({"jobs": jobs, "ready_s": round(took, 2), "calls": sum(made.values()), "pages": made["workloads.list"]})


if __name__ == "__main__":
    main()
