"""No-op jobs finished per second, submitted by `map`, against Ray tasks that start a fresh process each.

    python -m benchmarks.jobs_throughput [--jobs 400] [--tasks 20]

Ray's part are tasks with `max_calls=1` on the same cluster: like ours, each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import gridweave as gw

from benchmarks.standing import ADMIN, Standing, finish, say, standing

RAYS = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False)
@ray.remote(num_cpus=0.5, max_calls=1)
def nothing(): return 1
ray.get(nothing.remote())
began = time.perf_counter()
ray.get([nothing.remote() for _ in range(int(sys.argv[2]))])
print("per second", int(sys.argv[2]) / (time.perf_counter() - began))
"""


def ours(on: Standing, jobs: int) -> float:
    gw.use(gw.Client(on.gateway, ADMIN))
    nothing = gw.function(vram="1GB")(lambda x: x)
    list(nothing.map(range(16)))
    began = time.perf_counter()
    if list(nothing.map(range(jobs))) != list(range(jobs)):
        raise SystemExit("wrong results")
    return jobs / (time.perf_counter() - began)


def rays(on: Standing, tasks: int) -> float:
    done = subprocess.run([sys.executable, "-c", RAYS, on.ray, str(tasks)], capture_output=True, text=True, check=True, timeout=600)
    return float(done.stdout.rpartition(" ")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    given = parser.parse_args()
    with standing() as on:
        say(f"{given.jobs} jobs of ours")
        mine = ours(on, given.jobs)
        say(f"{given.tasks} tasks of Ray's")
        theirs = rays(on, given.tasks)
    say(f"Gridweave {mine:.1f} jobs per second, Ray {theirs:.2f} tasks per second")
    finish({"per_s": round(mine, 1), "ratio": round(mine / theirs, 1)})


if __name__ == "__main__":
    main()
