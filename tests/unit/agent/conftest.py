"""A real agent process, a small blob server, and what a test needs to run a function through both."""

from __future__ import annotations

import ctypes
import hashlib
import http.server
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]  # it has no types
import pytest
from gridweave_agent.client import AgentClient, AgentStaleEpoch, AgentUnavailable
from gridweave_agent.rundir import RunDir

AGENT = Path(__file__).parents[3] / "agent"
TOKEN, TAIL_TOKEN = "command-secret-canary", "tail-secret-canary"
GPUS = [{"index": n, "model": "A100-80GB", "vendor": "nvidia", "total_mib": 81_920, "uuid": ""} for n in range(2)]


class Blobs:
    """Blobs in memory over HTTP. `refuse`: statuses to answer the next uploads with. `form`: of the last POST."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.refuse: list[int] = []
        self.form = b""
        self.uploads: list[str] = []
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def readable(self, data: bytes) -> dict[str, object]:
        """A grant to read these bytes."""
        digest = hashlib.sha256(data).hexdigest()
        self.stored[f"in/{digest}"] = data
        url = f"{self.url}/in/{digest}"
        return {
            "method": "GET",
            "url": url,
            "prefix": "",
            "max_size": 1 << 30,
            "expires_ms": 0,
            "fields": {},
            "sha256": digest,
            "size": len(data),
        }

    def writable(self, run: str, **changes: object) -> dict[str, object]:
        prefix = f"jobs/{run}/"
        grant = {"method": "PUT", "url": f"{self.url}/{prefix}{{name}}?sig=grant-canary", "prefix": prefix, "max_size": 1 << 30}
        return {**grant, "expires_ms": int(time.time() * 1000) + 600_000, "fields": {}, **changes}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        blobs = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = blobs.stored.get(self.path[1:])
                self.send_response(200 if data is not None else 404)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                self.wfile.write(data or b"")

            def do_PUT(self) -> None:
                self._store(self.path[1:].partition("?")[0])

            def do_POST(self) -> None:
                self._store(self.path[1:])

            def _store(self, key: str) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                status = blobs.refuse.pop(0) if blobs.refuse else 201
                blobs.uploads.append(key)
                if status == 201:
                    blobs.stored[key] = data
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        return Handler


def drop_admin() -> None:
    """In the child: lose the right to make namespaces other than of users."""
    pr_capbset_drop, cap_sys_admin = 24, 21
    ctypes.CDLL(None).prctl(pr_capbset_drop, cap_sys_admin, 0, 0, 0)


class Node:
    """An agent in a process of its own, on a folder that outlives it."""

    def __init__(self, folder: Path, blobs: Blobs, **config: object) -> None:
        self.folder, self.blobs = folder, blobs
        self.config = {
            "node": "n1",
            "dir": str(folder / "node"),
            "token": TOKEN,
            "tail_token": TAIL_TOKEN,
            "gpus": GPUS,
            "chunk_age_ms": 100,
            "upload_retry_ms": 20,
            "heartbeat_ms": 100,
            **config,
        }
        self.environ: dict[str, str] = {
            "AWS_SECRET_ACCESS_KEY": "aws-canary",
            "RAY_AUTH_TOKEN": "ray-canary",
            "PLATFORM_TOKEN": "platform-canary",
        }
        self.python = sys.executable
        self.without_admin = False  # start it without CAP_SYS_ADMIN, as in a container
        self.process: subprocess.Popen[str] | None = None
        self.epoch = 1
        self.jobs = 0

    def start(self) -> Node:
        path = self.folder / "config.json"
        path.write_text(json.dumps(self.config))
        environ = {**os.environ, **self.environ, "PYTHONPATH": str(AGENT)}
        with open(self.folder / "agent.err", "ab") as errors:
            self.process = subprocess.Popen(
                [self.python, "-m", "gridweave_agent", str(path)],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=drop_admin if self.without_admin else None,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "agent.err").read_text()
        self.info = json.loads(line)
        self.client = AgentClient(self.info["address"], TOKEN, deadline_s=60)
        self.hello = self.client.hello(self.epoch)
        return self

    def end(self, how: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.client.close()
            self.process.send_signal(how)
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def restart(self) -> Node:
        self.end()
        return self.start()

    def close(self) -> None:
        """End every run, then the agent."""
        if self.process is not None:
            self.client.close()
            self._introduce()
            live = [run["run"] for run in self.client.reports()["reports"] if run["state"] != "gone"]
            for run in live:
                self.ask("kill", run, grace_ms=0)
            for run in live:
                self.until(run, lambda report: report["state"] == "gone")
        self.end(signal.SIGTERM)

    def _introduce(self) -> None:
        """Once it serves again: a test may have taken every connection there is, and they end one by one."""
        for _ in range(200):
            try:
                self.client.hello(self.epoch)
                return
            except AgentStaleEpoch as error:
                self.epoch = error.newest
            except AgentUnavailable:
                time.sleep(0.05)
        raise AssertionError("the agent serves nobody any more")

    def folder_of(self, run: str) -> Path:
        return Path(RunDir.of(Path(str(self.config["dir"])) / "runs", run).path)

    def ask(self, kind: str, run: str, **fields: object) -> dict[str, Any]:
        return self.client.commands(self.epoch, [{"kind": kind, "run": run, **fields}])[0]

    def report(self, run: str) -> dict[str, Any]:
        return next(each for each in self.client.reports()["reports"] if each["run"] == run)

    def until(self, run: str, good: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first report that is good. A test's own time-out is the bound."""
        cursor = ""
        while True:
            answer = self.client.reports(cursor, 20_000)
            cursor = str(answer["cursor"])
            for report in answer["reports"]:
                if report["run"] == run and good(report):
                    return dict(report)

    def prepared(self, function: object, args: tuple[object, ...] = (), **fields: Any) -> dict[str, Any]:
        """A prepare command; `inputs` are added to, other fields replaced."""
        self.jobs += 1
        run = fields.pop("run", f"job{self.jobs}/1")
        raw = function if isinstance(function, bytes) else cloudpickle.dumps(function)
        inputs = {"function": self.blobs.readable(raw), "args": self.blobs.readable(cloudpickle.dumps((args, {})))}
        return {
            "kind": "prepare",
            "run": run,
            "user": "u",
            "name": "f",
            "slots": [{"gpu": 0, "mib": 8192}],
            "gpu_totals": [81_920],
            "env": {},
            "output": self.blobs.writable(run),
            "setup_bound_ms": 60_000,
            **fields,
            "inputs": {**inputs, **fields.get("inputs", {})},
        }

    def launch(self, function: object, args: tuple[object, ...] = (), max_runtime_ms: int | None = None, **fields: Any) -> str:
        """Prepare a run, wait until it is ready, and let it go."""
        command = self.prepared(function, args, **fields)
        assert self.client.commands(self.epoch, [command])[0] == {"ok": True, "known": True, "error": ""}
        report = self.until(command["run"], lambda report: report["state"] in ("ready", "gone"))
        assert report["state"] == "ready", report
        assert self.ask("go", command["run"], max_runtime_ms=max_runtime_ms)["ok"]
        return str(command["run"])

    def gone(self, run: str) -> dict[str, Any]:
        return self.until(run, lambda report: report["state"] == "gone")

    def run(self, function: object, args: tuple[object, ...] = (), **fields: Any) -> dict[str, Any]:
        """The report of a run that is over."""
        return self.gone(self.launch(function, args, **fields))

    def result(self, run: str) -> Any:
        """What a run returned, or the dict of what it raised; taken from the blob store."""
        self.until(run, lambda report: report["stored"])
        return pickle.loads(self.blobs.stored[f"jobs/{run}/result"])  # noqa: S301  what this very test made

    def value(self, function: object, args: tuple[object, ...] = (), **fields: Any) -> Any:
        """What the function returns when it is run there."""
        report = self.run(function, args, **fields)
        assert report["exit"]["kind"] == "Returned", report
        return self.result(report["run"])

    def log(self, run: str) -> bytes:
        """All of a log, followed to its end."""
        data = b""
        while True:
            piece = self.client.log(run, len(data), wait_ms=20_000)
            assert piece is not None
            data += piece.data
            if piece.complete:
                return data


def script(source: str) -> dict[str, Any]:
    """The names of a user's script, as cloudpickle sees them: defined in `__main__`, and so pickled by value."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(source, names)  # noqa: S102  the test's own text
    return names


@pytest.fixture
def blobs() -> Iterator[Blobs]:
    blobs = Blobs()
    yield blobs
    blobs.close()


@pytest.fixture
def make_node(tmp_path: Path, blobs: Blobs) -> Iterator[Callable[..., Node]]:
    """Nodes of this test alone."""
    nodes: list[Node] = []

    def make(**config: object) -> Node:
        folder = tmp_path / f"n{len(nodes)}"
        folder.mkdir()
        nodes.append(Node(folder, blobs, **config).start())
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def fresh(make_node: Callable[..., Node]) -> Node:
    return make_node()


@pytest.fixture(params=["namespace", "subreaper"])
def fresh_either(request: pytest.FixtureRequest, make_node: Callable[..., Node]) -> Node:
    """A node for each way of ending a run whole."""
    return make_node(isolation=request.param)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Node]]:
    """One node of each kind for all tests that leave it as they found it: a start takes longer than most of them."""
    blobs = Blobs()
    nodes: dict[str, Node] = {}

    def give(isolation: str) -> Node:
        if isolation not in nodes:
            nodes[isolation] = Node(tmp_path_factory.mktemp("shared"), blobs, isolation=isolation).start()
        return nodes[isolation]

    yield give
    for node in nodes.values():
        node.close()
    blobs.close()


@pytest.fixture
def node(shared: Callable[[str], Node]) -> Node:
    return shared("auto")


@pytest.fixture(params=["namespace", "subreaper"])
def either(request: pytest.FixtureRequest, shared: Callable[[str], Node]) -> Node:
    """A node for each way of ending a run whole."""
    return shared(request.param)
