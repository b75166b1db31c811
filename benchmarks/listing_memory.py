"""What a page of jobs costs in memory, with ten times as many jobs on Kubernetes as before.

    python -m benchmarks.listing_memory [--jobs 10000]

A real API server with etcd. The peak of what one `list` allocates is taken with a tenth of the jobs, then with all of
them; the ratio is of the two, and 1 says that a page costs what a page costs.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from adapters.k8s.client import connect
from adapters.k8s.objects import PAGE
from adapters.k8s.workloads import KubeWorkloads
from benchmarks.kubernetes import NAMESPACE, plane
from benchmarks.standing import finish, say
from ports.units import Instant, Mib
from ports.workloads import Ask, BlobRef, Job, JobSpec

WRITERS = 8
LIMIT = 100


def create(store: KubeWorkloads, numbers: Iterable[int]) -> None:
    spec = JobSpec("ada", "paid", "square", Ask(Mib(8192)), BlobRef("a" * 64, 10), BlobRef("b" * 64, 20))
    with ThreadPoolExecutor(WRITERS) as pool:
        for _ in pool.map(lambda n: store.create(Job(f"job-{n:06}", "", Instant(n), spec)), numbers):
            pass


def peak(store: KubeWorkloads) -> int:
    """Bytes that one page takes at most while it is read; of three, the least."""
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        found = store.list(limit=LIMIT, newest_first=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(found.jobs) == LIMIT
    return min(peaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    jobs: int = parser.parse_args().jobs
    say(f"{jobs} jobs, read in parts of {PAGE}, of which a page of {LIMIT} is made")
    with plane() as on, closing(connect(NAMESPACE, on.kubeconfig)) as client, closing(KubeWorkloads(client)) as store:
        create(store, range(jobs // 10))
        few = peak(store)
        say(f"{jobs // 10:>8} jobs {few / 1e6:9.2f} MB at the peak")
        create(store, range(jobs // 10, jobs))
        many = peak(store)
        say(f"{jobs:>8} jobs {many / 1e6:9.2f} MB at the peak")
    finish({"ratio": round(many / few, 4)})


if __name__ == "__main__":
    main()
