"""What the contract of ports.cluster is held against, with the faults that it needs: memory, and a real Ray."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import cloudpickle  # type: ignore[import-untyped]

from adapters.ray.cluster import AgentSettings, RayCluster
from adapters.ray.labels import GPUS, NODE, OWNER, parse_gpus
from adapters.ray.local import LOOPBACK, LocalNode, LocalRay
from adapters.ray.package import AgentPackage, agent_package
from adapters.ray.process import DriverProcess
from adapters.ray.venv import uv_binary
from ports.blobs import Grant, run_prefix
from ports.cluster import Cluster, ClusterNode, Input, Prepare
from ports.units import Instant, Mib, Span
from ports.workloads import Environment, RunId, Slot
from tests.memory.cluster import FOREVER, MemoryCluster, Script

ORG_A, ORG_B, ACME = "org-a", "org-b", "acme-c"
GPU_LABELS = {ORG_A: "4xA100-80GB", ORG_B: "2xH100-80GB_1xL4-24GB", ACME: "2xMI300X-192GB"}
OWNERS = {ORG_A: "org", ORG_B: "org", ACME: "provider:acme"}
FLEET = {name: ClusterNode(name, True, OWNERS[name], parse_gpus(GPU_LABELS[name])) for name in OWNERS}
LATER = Instant(4_102_444_800_000)  # in 2100


class Rig(Protocol):
    """prepare: of a run that returns at once, or sleeps for ever. times_run: how often its code was started."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def epoch(self) -> int: ...
    def next_epoch(self) -> int: ...
    def new_run(self) -> RunId: ...
    def prepare(self, run: RunId, node: str, mib: Mib = Mib(1024), sleeps: bool = False) -> Prepare: ...
    def times_run(self, run: RunId) -> int: ...
    def pause(self) -> None: ...
    def kill_agent(self, node: str) -> None: ...
    def kill_node(self, node: str) -> None: ...
    def start_node(self, node: str) -> None: ...
    def hang_head(self) -> None: ...
    def resume_head(self) -> None: ...


class _Counted:
    """Epochs and runs, each one new."""

    def __init__(self) -> None:
        self.epoch, self._runs = 1, 0

    def next_epoch(self) -> int:
        self.epoch += 1
        return self.epoch

    def new_run(self) -> RunId:
        self._runs += 1
        return RunId(f"job-{self._runs}", 1)


class MemoryRig(_Counted):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = MemoryCluster(FLEET.values(), self._behave)
        self._sleepers: set[RunId] = set()
        self._asked: list[RunId] = []

    def prepare(self, run: RunId, node: str, mib: Mib = Mib(1024), sleeps: bool = False) -> Prepare:
        if sleeps:
            self._sleepers.add(run)
        grant = Grant("PUT", "memory://{name}", run_prefix(run.workload, run.attempt), 1 << 20, LATER)
        return Prepare(run, "alice", "test", (Slot(node, 0, mib),), (_total(node),), Environment(), {}, grant, Span(60_000))

    def times_run(self, run: RunId) -> int:
        return self._asked.count(run)

    def pause(self) -> None:
        self.cluster.advance(Span(500))

    def kill_agent(self, node: str) -> None:
        self.cluster.kill_agent(node)

    def kill_node(self, node: str) -> None:
        self.cluster.kill_node(node)

    def start_node(self, node: str) -> None:
        self.cluster.start_node(node)

    def hang_head(self) -> None:
        self.cluster.hung = True

    def resume_head(self) -> None:
        self.cluster.hung = False

    def _behave(self, prepare: Prepare) -> Script:
        self._asked.append(prepare.run)
        return Script(runs=FOREVER) if prepare.run in self._sleepers else Script()


class RayRig(_Counted):
    """Three raylets on loopback, and a place for blobs behind HTTP."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        self._blobs = Blobs(home / "blobs")
        self.local = LocalRay(home / "ray", _labels(ORG_A))
        self._settings = AgentSettings(str(self.local.agent_dir), uv=uv_binary())
        self.cluster = self.cluster_of(agent_package())
        self._nodes: dict[str, LocalNode] = {}

    def cluster_of(self, package: AgentPackage) -> RayCluster:
        """The same cluster as a gateway of another version would see it."""
        driver = DriverProcess(self.local.ensure, package.data, LOOPBACK, answers_within=Span(4000))
        return RayCluster(driver, package, self._settings, b"a secret of this test")

    def start(self) -> None:
        self.local.ensure()
        self._nodes[ORG_A] = self.local.nodes[0]
        for name in (ORG_B, ACME):
            self.start_node(name)

    def close(self) -> None:
        self.cluster.close()
        self.local.stop(runs=True)
        self._blobs.close()

    def prepare(self, run: RunId, node: str, mib: Mib = Mib(1024), sleeps: bool = False) -> Prepare:
        mark = str(self._mark(run))

        def work() -> str:
            with open(mark, "a") as file:
                file.write("once\n")
            if sleeps:
                time.sleep(3600)
            return mark

        return prepared(run, Slot(node, 0, mib), _total(node), work, self._blobs)

    def times_run(self, run: RunId) -> int:
        return len(self._mark(run).read_text().splitlines())

    def pause(self) -> None:
        time.sleep(0.5)

    def kill_agent(self, node: str) -> None:
        os.kill(self.cluster.pid(node), signal.SIGKILL)

    def kill_node(self, node: str) -> None:
        raylet = self._nodes[node].raylet
        assert raylet is not None
        os.kill(raylet.pid, signal.SIGKILL)

    def start_node(self, node: str) -> None:
        self._nodes[node] = self.local.add_node(_labels(node))

    def hang_head(self) -> None:
        self._signal_head(signal.SIGSTOP)

    def resume_head(self) -> None:
        self._signal_head(signal.SIGCONT)

    def _signal_head(self, number: signal.Signals) -> None:
        gcs = self._nodes[ORG_A].gcs
        assert gcs is not None
        os.kill(gcs.pid, number)

    def _mark(self, run: RunId) -> Path:
        return self._home / f"{run.workload}.ran"


def prepared(run: RunId, slot: Slot, total: Mib, work: Callable[[], object], blobs: Blobs) -> Prepare:
    """To run `work` with its inputs and outputs in `blobs`."""
    inputs = {"function": cloudpickle.dumps(work), "args": cloudpickle.dumps(((), {}))}
    given = {
        name: Input(hashlib.sha256(data).hexdigest(), len(data), blobs.readable(f"jobs/{run.workload}/{name}", data))
        for name, data in inputs.items()
    }
    output = blobs.writable(run_prefix(run.workload, run.attempt))
    return Prepare(run, "alice", "test", (slot,), (total,), Environment(), given, output, Span(60_000))


def _total(node: str) -> Mib:
    gpus = FLEET[node].gpus
    assert gpus
    return gpus[0].total


def _labels(name: str) -> dict[str, str]:
    return {NODE: name, OWNER: OWNERS[name].replace(":", "."), GPUS: GPU_LABELS[name]}


class Blobs:
    """A folder behind HTTP: GET and PUT, as grants allow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(200, (folder / self.path[1:]).read_bytes())

            def do_PUT(self) -> None:
                path = folder / self.path[1:]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(200, json.dumps({}).encode())

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def readable(self, key: str, data: bytes) -> Grant:
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return Grant("GET", f"{self._url}/{key}", key, len(data), LATER)

    def writable(self, prefix: str) -> Grant:
        return Grant("PUT", f"{self._url}/{prefix}{{name}}", prefix, 1 << 20, LATER)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"
