"""Create a job and allocate it: the controller library through the control service, against the same library directly.

    python -m benchmarks.crd_latency [--times 100]

A real API server with etcd, a real `gridweave-control`. The two take turns, so that both meet the same machine. The ratio
is of the medians, proxied over direct.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import median
from types import ModuleType

from adapters.k8s import crd as direct
from adapters.k8s.client import connect
from adapters.remote import crd as proxied
from benchmarks.kubernetes import NAMESPACE, Standing, plane
from benchmarks.standing import ADMIN, ROOT, finish, say
from ports.units import Mib
from ports.workloads import BlobRef, Slot

WARM = 5
FUNCTION = BlobRef("a" * 64, 10)
PLACEMENT = (Slot("n1", 0, Mib(8192)),)


@contextmanager
def control(on: Standing) -> Iterator[str]:
    """Its URL."""
    command = [sys.executable, "-m", "runtimes.control", "--host", "127.0.0.1", "--port", "0"]
    env = {**on.env, "ADMIN_TOKEN": ADMIN, "STATE_DIR": str(on.folder)}
    log = on.folder / "control.log"
    with log.open("w") as out, subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=out, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if not said:
                raise SystemExit(f"gridweave-control did not start:\n{log.read_text()[-3000:]}")
            yield f"http://127.0.0.1:{int(said.rpartition(':')[2])}"
        finally:
            process.terminate()


def steps(crd: ModuleType, key: str) -> tuple[Callable[[], object], ...]:
    return lambda: crd.create_job(key, "ada", FUNCTION, vram="8GB"), lambda: crd.set_job_allocated(key, PLACEMENT, epoch=1)


def measured(times: int) -> dict[str, list[float]]:
    """Seconds of both steps together, by transport."""
    spent: dict[str, list[float]] = {"direct": [], "proxied": []}
    for n in range(times + WARM):
        for name, crd in (("direct", direct), ("proxied", proxied)):
            began = time.perf_counter()
            for step in steps(crd, f"{name}-{n}"):
                step()
            if n >= WARM:
                spent[name].append(time.perf_counter() - began)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    times: int = parser.parse_args().times
    say("starting a control plane and a control service")
    with plane() as on, control(on) as url, closing(connect(NAMESPACE, on.kubeconfig)) as client:
        direct.use(client)
        proxied.use(url, ADMIN)
        say(f"{times} jobs on each way")
        spent = measured(times)
        direct.close()
        proxied.close()
    for name, each in spent.items():
        say(f"{name:<12}{median(each) * 1000:9.2f} ms at the median to create and allocate")
    finish({"ratio": round(median(spent["proxied"]) / median(spent["direct"]), 4)})


if __name__ == "__main__":
    main()
