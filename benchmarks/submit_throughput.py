"""Accepted submits and status reads per second with 32 clients at once.

    python -m benchmarks.submit_throughput [--submits 9000] [--reads 30000] [--rays 384]

The gateway has a worker for each processor, two at most, and so has the bare server. Submits are compared with what Ray's Job
Submission API accepts on the same cluster, reads with a bare Falcon handler that gives the same bytes under the same server. Each
is measured in three parts of about two seconds, by turns with what it is compared with: what else the machine does then falls on
both. All GPUs are held meanwhile, Ray's jobs of one part have ended before the next, and each part begins when the processors are
idle, so that nothing but the accepting is measured. What Gridweave has accepted is cancelled at the end. Takes some minutes, in
which Ray starts a process for each of its jobs.

Each submit makes a folder. On ext4, in a part of the disk where thousands of files were deleted a few minutes ago, to make one
costs up to half a millisecond instead of 25 microseconds; what it costs here is printed. Wait some minutes between two runs, or give
TMPDIR a place elsewhere.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import harmonic_mean

import falcon
import falcon.asgi
import gridweave as gw
import stamina
from gridweave.calls import spawn
from gridweave.jobs import Job
from gridweave.parcels import Parcel
from ray.job_submission import JobSubmissionClient

from benchmarks.standing import ADMIN, ROOT, Standing, answers, finish, free_port, say, standing
from benchmarks.wire_clients import rate, request
from runtimes.http.edge import Edge
from runtimes.http.server import Server, listen
from runtimes.settings import load

CLIENTS = 32
WORKERS = 2  # of the gateway, if there are as many processors
PARTS = 3
HEADERS = {"Authorization": f"Bearer {ADMIN}"}


def waits() -> None:
    import time

    time.sleep(86_400)


waits.__module__ = "__main__"


def submits(on: Standing, count: int, part: int) -> float:
    client = gw.Client(on.gateway, ADMIN)
    with contextlib.closing(Parcel(gw.function(vram="80GB")(waits))) as parcel:
        letter = parcel.letter((), {})
        with contextlib.closing(letter):
            body = json.dumps(parcel.body(client, letter._arguments, letter._code)).encode()
    wanted = (request("POST", "/v1/jobs/submit", {**HEADERS, "Idempotency-Key": f"bench-{part}-{n}"}, body) for n in range(count))
    idle()
    per_s, statuses = rate(on.gateway, wanted, CLIENTS)
    if Counter({202: count}) != statuses:
        raise SystemExit(f"not all submits were accepted: {statuses}")
    return per_s


def reads(url: str, path: str, count: int) -> float:
    per_s, statuses = rate(url, (request("GET", path, HEADERS) for _ in range(count)), CLIENTS)
    if Counter({200: count}) != statuses:
        raise SystemExit(f"not all reads were answered: {statuses}")
    return per_s


def rays(on: Standing, count: int) -> float:
    """Returns when they have ended."""
    client = JobSubmissionClient(on.dashboard)
    for attempt in stamina.retry_context(on=RuntimeError, timeout=60):  # as long as the agent of its node is starting
        with attempt:
            client.submit_job(entrypoint="true")
    idle()
    with ThreadPoolExecutor(CLIENTS) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: client.submit_job(entrypoint="true"), range(count)))
        seconds = time.perf_counter() - began
    while not all(job.status.is_terminal() for job in client.list_jobs() if job.submission_id):
        time.sleep(0.5)
    return count / seconds


def idle() -> None:
    """Returns when the processors have been idle for half a second: what has ended still clears up."""
    for _ in range(60):
        before = _times()
        time.sleep(0.5)
        spent = [after - earlier for earlier, after in zip(before, _times(), strict=True)]
        if spent[3] > 0.95 * sum(spent):
            return
    raise SystemExit("This machine is busy with something else: no comparison would say much.")


def _times() -> list[int]:
    """Of all processors together, in ticks; the fourth is that in which they did nothing."""
    return [int(each) for each in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]]


def a_folder(place: Path, count: int = 1000) -> float:
    """Microseconds of processor time that it takes to make one there. They are left, so that nothing is deleted before the measurement."""
    within = place / "folders"
    within.mkdir()
    began = time.thread_time_ns()
    for n in range(count):
        os.mkdir(within / str(n))
    return (time.thread_time_ns() - began) / count / 1000


def mean(rates: Iterable[float]) -> float:
    """Of parts of the same size: all of them by the time of all."""
    return harmonic_mean(list(rates))


@contextlib.contextmanager
def bare(data: bytes, on: Standing) -> Iterator[str]:
    """The URL of a process like the gateway's, whose one handler gives these bytes."""
    port, file = free_port(), on.folder / "bare.json"
    file.write_bytes(data)
    command = [sys.executable, "-m", "benchmarks.submit_throughput", "--serve", str(port), str(file)]
    process = subprocess.Popen(command, cwd=ROOT, env=on.env, stdout=subprocess.DEVNULL)
    try:
        answers(f"http://127.0.0.1:{port}/", process, file)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def serve(port: int, file: str) -> None:
    """In that process, until SIGTERM."""
    with open(file, "rb") as opened:
        data = opened.read()

    class Bare:
        async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
            resp.data = data

    def make() -> Edge:
        app: falcon.asgi.App[falcon.asgi.Request, falcon.asgi.Response] = falcon.asgi.App()
        app.add_route("/", Bare())
        return Edge(app, lambda: None)

    Server(load(os.environ).settings, listen("127.0.0.1", port), make).run()


def hold_all(client: gw.Client) -> Job:
    job = spawn(client, gw.function(vram="1GB", gpus=8, exclusive=True)(waits), (), {})
    while job.status()["phase"] != "Running":
        time.sleep(0.1)
    return job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--submits", type=int, default=9000)
    parser.add_argument("--reads", type=int, default=30_000)
    parser.add_argument("--rays", type=int, default=384)
    parser.add_argument("--serve", nargs=2, metavar=("PORT", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    given = parser.parse_args()
    if given.serve:
        serve(int(given.serve[0]), given.serve[1])
        return
    with standing(WORKERS=str(min(WORKERS, len(os.sched_getaffinity(0))))) as on:
        client = gw.Client(on.gateway, ADMIN)
        job = hold_all(client)
        say(f"{given.reads} reads of a status by {CLIENTS} clients")
        path = f"/v1/jobs/{job.id}/status"
        with bare(json.dumps(job.status()).encode(), on) as url:
            seen = [(reads(on.gateway, path, given.reads // PARTS), reads(url, "/", given.reads // PARTS)) for _ in range(PARTS)]
        say(f"to make a folder costs {a_folder(on.folder):.0f} us of processor time here")
        say(f"{given.submits} submits by {CLIENTS} clients, and {given.rays} of Ray's")
        submits(on, given.submits // 20, PARTS)  # so that both have been asked before
        taken = [(submits(on, given.submits // PARTS, part), rays(on, given.rays // PARTS)) for part in range(PARTS)]
        job.cancel()
        for each in client.jobs(phases="Pending"):
            client.cancel(each["id"])
    for what, (ours, other), parts in (("submits", ("Gridweave", "Ray"), taken), ("reads", ("Gridweave", "a bare handler"), seen)):
        for name, rates in zip((ours, other), zip(*parts, strict=True), strict=True):
            say(f"{what} per second, {name}: {', '.join(f'{each:.0f}' for each in rates)}; together {mean(rates):.1f}")
    accepted, theirs = (mean(rates) for rates in zip(*taken, strict=True))
    read, bares = (mean(rates) for rates in zip(*seen, strict=True))
    finish({"ratio": round(accepted / theirs, 1), "reads_ratio": round(read / bares, 3)})


if __name__ == "__main__":
    main()
