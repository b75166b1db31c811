"""A gateway in this process: the real application on SQLite and a folder, driven through ASGI. No Ray, no socket."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import attrs
import httpx
import pytest

from adapters.local.blobs import FolderBlobs
from adapters.local.clock import SystemClock
from adapters.local.grants import GrantedWrite, open_grant
from adapters.local.randomness import SystemRandomness
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.nodes import SqliteNodes
from adapters.sqlite.schema import open_credits, open_gridweave
from adapters.sqlite.tariffs import SqliteTariffs
from adapters.sqlite.workloads import SqliteWorkloads
from core.house import House, Terms
from core.policies import policy
from ports.credits import ISSUE, user_account
from ports.nodes import Gpu, NodeRecord, NodeState, NodeStatus
from ports.tariffs import Price, PriceLine, Tariff
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import (
    RESULT_STORED,
    ConditionStatus,
    Exit,
    ExitKind,
    Job,
    JobStatus,
    Phase,
    Result,
    Run,
    RunId,
    RunState,
    Slot,
)
from runtimes.http.app import create_app
from runtimes.http.services import Permit, Services, Tail
from runtimes.http.watch import Watch
from runtimes.settings import load

T = TypeVar("T")
SECRET = b"0" * 32
ADMIN = "admin-token-0123456789"
ALICE = {"X-User-Id": "alice", "X-User-Plan": "paid"}
BOB = {"X-User-Id": "bob", "X-User-Plan": "paid"}


class Agents:
    """Logs as agents would tail them: bytes per run, and whether more may come."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.complete: set[str] = set()
        self.reads = 0
        self.grown = asyncio.Event()

    async def read(self, node: str, address: str, run: RunId, offset: int, limit: int, wait: Span) -> Tail | None:
        self.reads += 1
        log = self.logs.get(str(run))
        if log is None:
            return None
        while offset >= len(self.logs[str(run)]) and str(run) not in self.complete and wait.ms:
            self.grown.clear()
            await self.grown.wait()
        log = self.logs[str(run)]
        return Tail(log[offset : offset + limit], len(log), str(run) in self.complete)

    def write(self, run: RunId, data: bytes, last: bool = False) -> None:
        self.logs[str(run)] = self.logs.get(str(run), b"") + data
        if last:
            self.complete.add(str(run))
        self.grown.set()

    async def close(self) -> None:
        return None


class Gateway:
    """The application with its services, and a client that speaks to it."""

    def __init__(self, folder: Path, terms: Terms, environment: dict[str, str], opened: ExitStack) -> None:
        self.runner = opened.enter_context(asyncio.Runner())
        self.folder = folder
        main, money = open_gridweave(folder), open_credits(folder)
        self.money = money
        opened.callback(money.close)
        opened.callback(main.close)
        clock = SystemClock()
        workloads = SqliteWorkloads(main)
        opened.callback(workloads.close)
        self.house = House(
            workloads,
            SqliteNodes(main),
            SqliteCredits(money, clock),
            SqliteTariffs(main),
            FolderBlobs(folder / "blobs", "http://gateway.internal:8200", SECRET, fsync=False),
            clock,
            SystemRandomness(),
            terms,
            SqliteMetering(money),
        )
        self.house.tariffs.publish(Tariff(1, Instant(0), 0, 1_000_000))
        self.agents = Agents()
        settings = load({"ADMIN_TOKEN": ADMIN, "SERVER_VERSION": "1.2.0"} | environment).settings
        watch = Watch(self.house.workloads, self.house.nodes, policy(terms.placement))
        self.services = Services(settings, self.house, watch, self.agents, check_grant=partial(permit, SECRET))
        self.app = create_app(self.services)
        self._cursor = self.services.watch.round("", Span(0))
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app, raise_app_exceptions=False), base_url="http://localhost")
        opened.callback(lambda: self.run(self.client.aclose()))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def request(self, method: str, path: str, headers: Any = None, **rest: Any) -> httpx.Response:
        return self.run(self.client.request(method, path, headers=ALICE if headers is None else headers, **rest))

    def get(self, path: str, headers: Any = None, **rest: Any) -> httpx.Response:
        return self.request("GET", path, headers, **rest)

    def post(self, path: str, headers: Any = None, **rest: Any) -> httpx.Response:
        return self.request("POST", path, headers, **rest)

    def look(self) -> None:
        """One round of the live copy, which in a real gateway a thread makes all the time."""
        self._cursor = self.services.watch.round(self._cursor, Span(0))

    def stop(self) -> None:
        """What SIGTERM does."""

        async def stopping() -> None:
            self.services.stop()

        self.run(stopping())

    # ------------------------------------------------------------ a world to serve

    def node(self, name: str, *gpus: tuple[str, int], owner: str = "org", state: NodeState = NodeState.READY) -> None:
        made = tuple(Gpu(index, model, "nvidia", Mib(gb * 1024)) for index, (model, gb) in enumerate(gpus))
        status = NodeStatus(state, owner=owner, gpus=made, agent=f"http://{name}.internal", python="3.11.7", cloudpickle="3.1.2")
        self.house.nodes.put_status(NodeRecord(name, status=status))
        self.look()

    def pay(self, user: str, amount: int) -> None:
        credits = Credits(amount * 1_000_000)
        self.house.credits.post(f"gift-{user}-{amount}", "grant", {user_account(user): credits, ISSUE: -credits})

    def submit(self, headers: Any = None, **changes: Any) -> Job:
        """A job of the caller's, stored and funded."""
        answer = self.post("/v1/jobs/submit", headers, json=body(**changes))
        assert answer.status_code == 202, answer.text
        job = self.house.workloads.get(answer.json()["id"])
        assert job is not None
        self.look()
        return job

    def change(self, job: Job, change: Callable[[JobStatus], JobStatus]) -> Job:
        """What the scheduler would write."""
        stored = self.house.workloads.get(job.id)
        assert stored is not None
        return self.house.workloads.replace(attrs.evolve(stored, status=change(stored.status)))

    def start(self, job: Job, node: str = "n1") -> Run:
        """Booked and running on the first GPU of a node."""
        now = self.house.clock.now()
        price = Price(1, (PriceLine("org", Rate(8_000_000)),))
        run = Run(RunId(job.id, 1), RunState.BOOKED, (Slot(node, 0, job.spec.ask.mib),), 1, price, now)
        self.change(job, lambda status: attrs.evolve(status.with_run(run), phase=Phase.ALLOCATED))
        running = attrs.evolve(run, state=RunState.RUNNING, started_at=now)
        self.change(job, lambda status: attrs.evolve(status.with_run(running), phase=Phase.RUNNING))
        self.look()
        return running

    def finish(self, job: Job, result: bytes | None, raised: bool = False, outcome: Phase | None = None, log: bytes = b"") -> Job:
        """Ended, with its result and log in the blob store."""
        key = f"jobs/{job.id}/1/result"
        if result is not None:
            self.house.blobs.put(key, [result])
        if log:
            self.house.blobs.put(f"jobs/{job.id}/1/logs/0/{0:09d}", [log])
        kind = ExitKind.RAISED if raised else ExitKind.RETURNED if result is not None else ExitKind.SIGNALLED
        outcome = outcome or (Phase.COMPLETED if result is not None and not raised else Phase.FAILED)
        stored = Result(key, len(result), hashlib.sha256(result).hexdigest(), raised) if result is not None else None
        now = self.house.clock.now()

        def end(status: JobStatus) -> JobStatus:
            assert status.run is not None
            said = Exit(kind, signal="SIGKILL" if result is None else "", log_tail=log.decode("utf-8", "replace"))
            run = attrs.evolve(status.run, state=RunState.ENDED, ended_at=now, ran=Span(1500), exit=said)
            closing = attrs.evolve(status.with_run(run), phase=Phase.CLOSING, outcome=outcome, reason=kind.value, result=stored)
            return closing.with_condition(RESULT_STORED, ConditionStatus.TRUE, now)

        self.change(job, end)
        done = self.change(job, lambda status: attrs.evolve(status, phase=outcome))
        self.look()
        return done


async def until(true: Callable[[], bool]) -> None:
    """Let everything else go on until that is so; the test's own time-out is the bound."""
    while not true():  # noqa: ASYNC110 - what is waited for is inside the code under test
        await asyncio.sleep(0.001)


def permit(secret: bytes, method: str, path: str, query: str, now: Instant) -> Permit:
    opened = open_grant(secret, method, path, query, now)
    return Permit(opened.key, opened.max_size if isinstance(opened, GrantedWrite) else 0)


def inline(data: bytes) -> dict[str, str]:
    return {"inline": base64.b64encode(data).decode()}


def body(**changes: Any) -> dict[str, Any]:
    """A submit that is right, with some fields changed; None takes one away."""
    base = {
        "function": inline(b"function"),
        "args": inline(b"args"),
        "vram": "8GB",
        "name": "square",
        "client": {"python": "3.11.9", "cloudpickle": "3.0.0"},
    }
    return {name: value for name, value in (base | changes).items() if value is not None}


Make = Callable[..., Gateway]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes gateways: terms by keyword, settings by `environment`."""
    with ExitStack() as opened:

        def made(environment: dict[str, str] | None = None, **terms: Any) -> Gateway:
            folder = tmp_path / f"state-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            return Gateway(folder, Terms(**terms), environment or {}, opened)

        yield made


@pytest.fixture
def gateway(make: Make) -> Gateway:
    """Credits off, one node of two 80 GB GPUs of the organisation."""
    made = make(python="3.11.7", cloudpickle="3.1.2")
    made.node("n1", ("A100-80GB", 80), ("A100-80GB", 80))
    return made
