"""A billing round over very many running workloads, against a real gridweave-credits, beside one request per workload.

    python -m benchmarks.billing_round [--workloads 100000] [--singles 1000] [--json]

The round is the biller's own: records and objects are read page by page, totals computed, posted, and told to metering, all
over HTTP, every posting on the disk before it is answered. Objects are made as they are read, so that what is measured is the
round and not a store. Single requests are charges alone, one per workload, over one kept connection; the same service, the
same disk.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from attrs import evolve

from adapters.local.clock import SystemClock
from adapters.remote.credits import RemoteCredits, line_to_credits
from adapters.remote.metering import RemoteMetering, line_to_metering
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from core.charges import totals
from core.house import House, Terms
from core.tick import tick
from ports.credits import ISSUE, Charge, user_account
from ports.nodes import NodeRecord, NodeState, NodeStatus
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import Ask, BlobRef, Job, JobFilter, JobSpec, JobStatus, Page, Phase, Run, RunId, RunState, Slot
from tests.contract.credits_process import TOKEN, CreditsProcess
from tests.memory.blobs import MemoryBlobs

USERS = 100
PRICE = Price(1, (PriceLine("org", Rate(8_000_000)), PriceLine("provider:acme", Rate(333_333, 7), 100_000)))
RAN = Span(61_234)


SLOTS = (Slot("n1", 0, Mib(8192)),)
SPECS = tuple(JobSpec(f"user-{number}", "paid", "bench", Ask(Mib(8192)), BlobRef("", 0), BlobRef("", 0)) for number in range(USERS))


def workload(number: int) -> Job:
    name = f"job-{number:06}"
    run = Run(RunId(name, 1), RunState.RUNNING, SLOTS, 1, PRICE, Instant(1), Instant(1))
    return Job(name, f"uid-{number:06}", Instant(number), SPECS[number % USERS], JobStatus(Phase.RUNNING, 1, (run,)), "1")


class Running:
    """A store of so many running workloads, made as they are read."""

    def __init__(self, count: int) -> None:
        self._count = count

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        if Phase.RUNNING not in which.phases or which.user is not None:
            return Page(())
        first = int(cursor or 0)
        last = min(first + limit, self._count)
        return Page(tuple(map(workload, range(first, last))), str(last) if last < self._count else "")


class Records:
    """One node that tells of them all."""

    def __init__(self, count: int) -> None:
        self.ran = {f"job-{number:06}/1": RAN for number in range(count)}

    def list(self) -> tuple[NodeRecord, ...]:
        return (NodeRecord("n1", status=NodeStatus(NodeState.READY, ran=self.ran)),)


def singles(credits: RemoteCredits, count: int) -> float:
    """Seconds per workload."""
    began = time.perf_counter()
    for number in range(count):
        job = workload(number)
        run = job.status.runs[0]
        credits.charge([Charge(run.id, f"single-{job.uid}", user_account(job.spec.user), RAN, totals(run.price, RAN))])
    return (time.perf_counter() - began) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--singles", type=int, default=1_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), options.workloads, options.singles)
    for name, value in found.items():
        print(f"{name:>24}  {value}")
    if options.json:
        print(json.dumps(found))


def measured(folder: Path, count: int, single: int) -> dict[str, Any]:
    with closing(open_credits(folder)) as database:
        books = SqliteCredits(database, SystemClock())
        for number in range(USERS):
            given = Credits(10**12)
            books.post(f"grant-{number}", "grant", {user_account(f"user-{number}"): given, ISSUE: -given})
    service = CreditsProcess(folder)
    service.start()
    try:
        with closing(line_to_credits(service.url, TOKEN)) as money, closing(line_to_metering(service.url, TOKEN)) as usage:
            credits, records = RemoteCredits(money), Records(count)
            unused = cast(Any, None)
            house = House(
                cast(Any, Running(count)), cast(Any, records), credits, unused, MemoryBlobs(SystemClock()), SystemClock(), unused,
                Terms(credits_enabled=True), RemoteMetering(usage),
            )  # fmt: skip
            each = singles(credits, single)
            before = _peak_mb()
            began = time.perf_counter()
            done = tick(house)
            took = time.perf_counter() - began
            if (count, count, ()) != (done.runs, done.posted, done.refused):
                raise SystemExit(f"the round is not what it should be: {evolve(done, refused=done.refused[:3])}")
            grown = _peak_mb() - before
    finally:
        service.kill()
    with closing(open_credits(folder)) as database:
        audit = SqliteCredits(database, SystemClock()).verify()
        if not audit.sound:
            raise SystemExit(f"the journal is wrong: {audit}")
    return {
        "workloads": count,
        "round_s": round(took, 2),
        "single_ms": round(each * 1000, 3),
        "round_ms_per_workload": round(took * 1000 / count, 4),
        "grown_mb": round(grown, 1),
        "ratio": round(each * count / took, 1),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
