"""Many at once: threads that start together, and processes that do.

A racing process is `python -m tests.contract.races NAME ADDRESS ARGUMENT`: it opens the store at the address
("sqlite:<folder>", "kube:<namespace>:<kubeconfig>" or the URL of a credit service), says that it is ready, waits for a line on its standard
input, does what NAME says, and prints what came of it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import evolve, frozen

from adapters.local.clock import SystemClock
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.epochs import SqliteEpochs
from adapters.sqlite.nodes import SqliteNodes
from adapters.sqlite.schema import open_credits, open_gridweave
from adapters.sqlite.workloads import SqliteWorkloads
from ports.credits import CreditService
from ports.errors import Conflict
from ports.leadership import Epochs
from ports.nodes import NodeRecord, NodeRecords, NodeStatus
from ports.units import Credits
from ports.workloads import Workloads
from tests.contract.credits_process import TOKEN
from tests.contract.samples import a_charge, a_job, counted

ROOT = Path(__file__).parents[2]


def in_threads(what: Callable[[int], object], times: int) -> list[object]:
    """What each of `times` threads gave, all started at one barrier."""
    barrier = threading.Barrier(times)

    def run(number: int) -> object:
        barrier.wait(60)
        return what(number)

    with ThreadPoolExecutor(times) as pool:
        return list(pool.map(run, range(times)))


def in_processes(name: str, address: str, arguments: list[str]) -> list[str]:
    """What each process printed; all of them were ready before the first was let go."""
    with running([(name, address, argument) for argument in arguments]) as processes:
        for process in processes:
            let_go(process)
        return [process.communicate(timeout=120)[0].strip() for process in processes]


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@contextmanager
def running(commands: list[tuple[str, str, str]]) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have opened their store and wait for a line; killed at the end, if they still live."""
    made = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.contract.races", *command], cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for command in commands
    ]
    try:
        for process in made:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield made
    finally:
        for process in made:
            process.kill()
            process.communicate()


# ---------------------------------------------------------------- what racers do


def replace_once(store: Workloads, version: str) -> str:
    """By a writer whose reading may be old by now."""
    job = store.get("job-1")
    assert job is not None
    try:
        return f"won {store.replace(counted(evolve(job, version=version))).version}"
    except Conflict:
        return "lost"


def count(store: Workloads, times: str) -> str:
    """Lost updates would show as a sum that is too small."""
    for _ in range(int(times)):
        while True:
            job = store.get("job-1")
            assert job is not None
            try:
                store.replace(counted(job))
            except Conflict:
                continue
            break
    return "done"


def create(store: Workloads, user: str) -> str:
    try:
        return f"won {store.create(a_job('job-1', user=user)).version}"
    except Conflict:
        return "lost"


def put_status(nodes: NodeRecords, address: str) -> str:
    try:
        nodes.put_status(NodeRecord("n1", status=NodeStatus(agent=address)))
    except Conflict:
        return "lost"
    return "won"


def raise_epoch(epochs: Epochs, to: str) -> str:
    try:
        epochs.raise_to(int(to), 0)
    except Conflict:
        return "lost"
    return "won"


def charge(credit: CreditService, first: str) -> str:
    """The same growing totals from two billers, each beginning elsewhere."""
    for until in range(int(first), 61, 2):
        credit.charge([a_charge(until, org=until * 10, platform=until)])
    credit.charge([a_charge(61, org=610, platform=61)])
    return "done"


def authorise(credit: CreditService, key: str) -> str:
    return credit.authorise(key, "user:alice", Credits(60)).state


_WORKLOADS: dict[str, Callable[[Workloads, str], str]] = {"replace_once": replace_once, "count": count, "create": create}
_NODES: dict[str, Callable[[NodeRecords, str], str]] = {"put_status": put_status}
_EPOCHS: dict[str, Callable[[Epochs, str], str]] = {"raise_epoch": raise_epoch}
_CREDITS: dict[str, Callable[[CreditService, str], str]] = {"charge": charge, "authorise": authorise}


@frozen
class Stores:
    """What is kept at one address."""

    workloads: Workloads | None
    nodes: NodeRecords | None
    epochs: Epochs | None
    credits: CreditService | None


def _ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


@contextmanager
def opened(address: str) -> Iterator[Stores]:
    kind, _, where = address.partition(":")
    if kind == "sqlite":
        folder = Path(where)
        with (
            closing(open_gridweave(folder)) as database,
            closing(open_credits(folder)) as money,
            closing(SqliteWorkloads(database)) as workloads,
        ):
            yield Stores(workloads, SqliteNodes(database), SqliteEpochs(database), SqliteCredits(money, SystemClock()))
    elif kind == "http":
        from adapters.remote.credits import RemoteCredits, line_to_credits  # slow to import: not for the other stores

        with closing(line_to_credits(address, TOKEN)) as line:
            yield Stores(None, None, None, RemoteCredits(line))
    else:
        assert kind == "kube", f"no store is known by {kind}"
        with on_kubernetes(where) as stores:
            yield stores


@contextmanager
def on_kubernetes(where: str) -> Iterator[Stores]:
    from adapters.k8s.client import connect  # slow to import: not for the other stores
    from adapters.k8s.epochs import KubeEpochs
    from adapters.k8s.nodes import KubeNodes
    from adapters.k8s.workloads import KubeWorkloads

    namespace, _, kubeconfig = where.partition(":")
    with closing(connect(namespace, kubeconfig)) as client, closing(KubeWorkloads(client)) as workloads:
        yield Stores(workloads, KubeNodes(client), KubeEpochs(client), None)


def main(name: str, address: str, argument: str) -> None:
    with opened(address) as stores:
        _ready()
        if name in _WORKLOADS:
            assert stores.workloads is not None
            said = _WORKLOADS[name](stores.workloads, argument)
        elif name in _NODES:
            assert stores.nodes is not None
            said = _NODES[name](stores.nodes, argument)
        elif name in _EPOCHS:
            assert stores.epochs is not None
            said = _EPOCHS[name](stores.epochs, argument)
        else:
            assert stores.credits is not None
            said = _CREDITS[name](stores.credits, argument)
        print(said, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
