"""From the create of a job to the scheduler's reserve, against a plain watch that is told of the same create.

    python -m benchmarks.watch_latency [--times 100]

A real API server with etcd. The scheduler is the real one, in a process of its own, on Kubernetes objects; its one node is
an agent that says yes. The plain watch is another process that reads the API's stream and does nothing else. Both are told
of the same jobs, and note when they had each, by the machine's monotonic clock; the ratio is of the medians, reserve over
plain watch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median

from adapters.k8s.client import connect
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.feed import events
from adapters.k8s.leadership import LeaseLeadership
from adapters.k8s.nodes import KubeNodes
from adapters.k8s.objects import Objects
from adapters.k8s.tariffs import KubeTariffs
from adapters.k8s.workloads import PLURAL, KubeWorkloads
from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.local.randomness import SystemRandomness
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from benchmarks.kubernetes import NAMESPACE, Standing, plane
from benchmarks.standing import ROOT, finish, say
from core.house import House, Terms
from ports.cluster import Agent, Answer, ClusterNode, Command, Hello, Reports
from ports.nodes import Gpu, NodeRecord, NodeSpec
from ports.tariffs import Tariff, Tariffs
from ports.units import Instant, Mib, Span
from ports.workloads import FUNDED, Ask, BlobRef, ConditionStatus, Job, JobSpec, JobStatus
from runtimes.batch.term import Term
from runtimes.log_lines import log_to_stderr

WARM = 5
PAUSE_S = 0.05  # between two creates: each is looked at alone
GPUS = tuple(Gpu(n, "A100-80GB", "nvidia", Mib(81_920)) for n in range(64))
NODE = ClusterNode("bench", True, "org", GPUS)


class Yes:
    """An agent that takes every command, and a cluster that has it alone."""

    def nodes(self) -> tuple[ClusterNode, ...]:
        return (NODE,)

    def agent(self, node: ClusterNode) -> Agent:
        return self

    def address(self, node: str) -> str:
        return ""

    def hello(self, epoch: int) -> Hello:
        return Hello(NODE.name, "one", epoch, "", "", GPUS, ())

    def command(self, epoch: int, commands: Sequence[Command]) -> tuple[Answer, ...]:
        return tuple(Answer(True) for _ in commands)

    def reports(self, cursor: str, wait: Span) -> Reports:
        time.sleep(wait.seconds)
        return Reports((), "one:0")


class Noted:
    """Tariffs that are asked for right after a reserve, and say when that was."""

    def __init__(self, tariffs: Tariffs) -> None:
        self._tariffs = tariffs

    def in_force(self, at: Instant) -> Tariff:
        print(time.monotonic(), flush=True)
        return self._tariffs.in_force(at)

    def history(self) -> tuple[Tariff, ...]:
        return self._tariffs.history()

    def publish(self, tariff: Tariff) -> Tariff:
        return self._tariffs.publish(tariff)


def schedule(kubeconfig: str, folder: Path) -> None:
    """A term that prints the time of each reserve. Ends with its standard input."""
    log_to_stderr()
    clock = SystemClock()
    with (
        closing(connect(NAMESPACE, kubeconfig)) as client,
        closing(KubeWorkloads(client)) as workloads,
        closing(open_credits(folder)) as money,
    ):
        tariffs, blobs = KubeTariffs(client), FolderBlobs(folder / "blobs", "http://127.0.0.1:1", b"s" * 32)
        tariffs.publish(Tariff(1, Instant(0), 0, 1_000_000))
        nodes = KubeNodes(client)
        nodes.put_spec(NodeRecord(NODE.name, NodeSpec("org")))
        house = House(
            workloads, nodes, SqliteCredits(money, clock), Noted(tariffs), blobs, clock, SystemRandomness(), Terms(), SqliteMetering(money)
        )
        leadership = LeaseLeadership(client, "the-benchmark")
        term = Term(house, Yes(), KubeEpochs(client), leadership.acquire)
        threading.Thread(target=_at_the_end, args=(term.stop,), daemon=True).start()
        threading.Thread(target=_say_ready, args=(nodes,), daemon=True).start()
        term.run()


def _at_the_end(stop: Callable[[], None]) -> None:
    sys.stdin.read()
    stop()


def _say_ready(nodes: KubeNodes) -> None:
    while not any(str(each.status.state) == "Ready" for each in nodes.list()):
        time.sleep(0.1)
    print("ready", flush=True)


def watch(kubeconfig: str) -> None:
    """Print the time of each object that is told of. Ends with its standard input."""
    with closing(connect(NAMESPACE, kubeconfig)) as client:
        objects = Objects(client, PLURAL)
        stream = objects.watch(objects.newest(), 600)
        threading.Thread(target=_at_the_end, args=(stream.shutdown,), daemon=True).start()
        print("ready", flush=True)
        for event in events(stream):
            if event["type"] == "ADDED":
                print(time.monotonic(), flush=True)


@contextmanager
def follower(on: Standing, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Is ready to be told."""
    command = [sys.executable, "-m", "benchmarks.watch_latency", "--follow", kind, "--folder", str(on.folder)]
    log = on.folder / f"{kind}.log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, cwd=ROOT, env=on.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise SystemExit(f"{kind} did not begin:\n{log.read_text()[-3000:]}")
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def a_job(name: str) -> Job:
    """Funded, as after a submit."""
    blob = BlobRef("a" * 64, 10)
    status = JobStatus().with_condition(FUNDED, ConditionStatus.TRUE, Instant(1), "Held")
    return Job(name, name, Instant(1), JobSpec("ada", "paid", "bench", Ask(Mib(1024)), blob, blob), status)


def measured(on: Standing, times: int) -> tuple[float, float]:
    """Seconds at the median from a create's beginning until the plain watch had it, and until the scheduler had reserved for it."""
    spent: tuple[list[float], list[float]] = [], []
    with ExitStack() as opened:
        followers = [opened.enter_context(follower(on, kind)) for kind in ("watch", "reserve")]
        store = KubeWorkloads(opened.enter_context(closing(connect(NAMESPACE, on.kubeconfig))))
        for n in range(times + WARM):
            time.sleep(PAUSE_S)
            began = time.monotonic()
            store.create(a_job(f"job-{n}"))
            for process, each in zip(followers, spent, strict=True):
                assert process.stdout is not None
                each.append(float(process.stdout.readline()) - began)
    return median(spent[0][WARM:]), median(spent[1][WARM:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: the JSON object is always last")
    parser.add_argument("--follow", choices=["watch", "reserve"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        config = os.environ["KUBECONFIG"]
        watch(config) if options.follow == "watch" else schedule(config, options.folder)
        return
    say("starting a control plane")
    with plane() as on:
        say(f"{options.times} jobs, each told to a plain watch and to the scheduler")
        plain, reserve = measured(on, options.times)
    for name, value in (("plain watch", plain), ("reserve", reserve)):
        say(f"{name:<12}{value * 1000:9.2f} ms after the create began, at the median")
    finish({"ratio": round(reserve / plain, 4)})


if __name__ == "__main__":
    main()
