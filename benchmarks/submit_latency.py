"""From submit to result of `lambda: 1`, through SDK and HTTP, against Ray's own Job Submission API on the same cluster.

    python -m benchmarks.submit_latency [--times 20]

Ray's part is `python -c "print(1)"` from submit to SUCCEEDED. Both are medians; the ratio is ours over Ray's.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import datetime
from statistics import median

import gridweave as gw
from gridweave.calls import spawn
from ray.job_submission import JobStatus, JobSubmissionClient

from benchmarks.standing import ADMIN, Standing, finish, say, standing

POLL_S = 0.01


def ours(on: Standing, times: int) -> tuple[float, dict[str, float]]:
    """Seconds at the median, and of what the time of the last jobs was spent."""
    client = gw.Client(on.gateway, ADMIN)
    one = gw.function(vram="1GB")(lambda: 1)
    spent: list[float] = []
    parts: dict[str, list[float]] = {"queue and launch": [], "run": [], "the rest": []}
    for n in range(times + 3):
        began = time.perf_counter()
        job = spawn(client, one, (), {})
        value = job.result()
        took = time.perf_counter() - began
        if value != 1:
            raise SystemExit(f"a wrong result: {value!r}")
        if n >= 3:  # the first ones warm things up
            spent.append(took)
            status = job.status()
            launch = _seconds(status["started_at"]) - _seconds(status["created_at"])
            parts["queue and launch"].append(launch)
            parts["run"].append(status["ran_ms"] / 1000)
            parts["the rest"].append(took - launch - status["ran_ms"] / 1000)
    return median(spent), {name: median(each) for name, each in parts.items()}


def rays(on: Standing, times: int) -> float:
    client = JobSubmissionClient(on.dashboard)
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        job = client.submit_job(entrypoint='python -c "print(1)"')
        _until(lambda job=job: client.get_job_status(job) == JobStatus.SUCCEEDED)  # type: ignore[misc]
        spent.append(time.perf_counter() - began)
    return median(spent)


def _until(seen: Callable[[], bool]) -> None:
    for _ in range(int(120 / POLL_S)):
        if seen():
            return
        time.sleep(POLL_S)
    raise SystemExit("Ray's job did not succeed within two minutes")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    times: int = parser.parse_args().times
    with standing() as on:
        say(f"{times} jobs of ours")
        mine, parts = ours(on, times)
        say(f"{times} jobs of Ray's")
        theirs = rays(on, times)
    for name, value in {
        "Gridweave": mine,
        **{f"  {name}": each for name, each in parts.items()},
        "Ray's Job Submission API": theirs,
    }.items():
        say(f"{name:<28}{value * 1000:9.1f} ms at the median")
    finish({"ratio": round(mine / theirs, 4)})


if __name__ == "__main__":
    main()
