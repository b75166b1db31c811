"""An agent over HTTP: how answers, refusals and silence reach the scheduler and the gateways."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from attrs import define, evolve, field

from adapters.ray.agents import RayAgent
from adapters.ray.tokens import command_token, tail_token
from ports.blobs import Grant
from ports.cluster import Command, Forget, Go, Input, Kill, Prepare, Renew, ReportState, StoredResult
from ports.errors import StaleEpoch, Unavailable
from ports.nodes import Gpu
from ports.units import Instant, Mib, Span
from ports.workloads import BlobRef, Environment, Exit, ExitKind, RunId, Slot

RUN = RunId("job-1", 2)
TOKEN = "very-secret"
REPORT = {
    "run": "job-1/2",
    "state": "gone",
    "started": True,
    "ran_ms": 1500,
    "epoch": 3,
    "slots": [{"gpu": 1, "mib": 512}],
    "detail": "",
    "exit": {"kind": "Signalled", "code": None, "signal": "SIGSEGV", "oom": False, "message": "m", "traceback": "", "log_tail": "t"},
    "result": {"name": "result", "size": 4, "sha256": "ab", "raised": True},
    "stored": False,
    "stored_error": "expired",
    "log_bytes": 9,
}
HELLO = {
    "protocol": 1,
    "node": "n",
    "incarnation": "i",
    "epoch": 3,
    "python": "3.11.7",
    "cloudpickle": "3.1.3",
    "gpus": [],
    "runs": [REPORT],
}


@define
class Scripted:
    """A server that answers each request with the next of `answers` (status, headers, body) and keeps what it was asked."""

    answers: list[tuple[int, dict[str, str], bytes]] = field(factory=list)
    asked: list[tuple[str, str, Any]] = field(factory=list)
    tokens: list[str] = field(factory=list)
    connections: list[tuple[str, int]] = field(factory=list)
    address: str = ""

    def says(self, body: object, status: int = 200, **headers: str) -> None:
        self.answers.append((status, headers, body if isinstance(body, bytes) else json.dumps(body).encode()))


@contextmanager
def serving(script: Scripted) -> Iterator[Scripted]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            script.asked.append((self.command, self.path, json.loads(data) if data else None))
            script.tokens.append(self.headers["Authorization"])
            script.connections.append(self.client_address)
            status, headers, body = script.answers.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - the name that http.server calls

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    script.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def server() -> Iterator[Scripted]:
    with serving(Scripted()) as script:
        yield script


@contextmanager
def asking(address: Callable[[], str]) -> Iterator[RayAgent]:
    agent = RayAgent("n", TOKEN, address, Span(5000))
    try:
        yield agent
    finally:
        agent.close()


def test_hello_and_reports_become_values(server: Scripted) -> None:
    """Every fact of a run that bills, frees or explains comes through here."""
    server.says(HELLO | {"gpus": [{"index": 1, "model": "L4", "vendor": "nvidia", "total_mib": 24576, "uuid": "GPU-1"}], "added_later": 1})
    told = REPORT | {"uid": "uid-1"}
    server.says({"cursor": "i:7", "incarnation": "i", "reports": [told], "ran": {"job-9/1": 20}, "uids": {"job-9/1": "uid-9"}})
    with asking(lambda: server.address) as agent:
        hello, reports = agent.hello(3), agent.reports("i:6", Span(250))
    assert (Gpu(1, "L4", "nvidia", Mib(24_576), "GPU-1"),) == hello.gpus
    (report,) = hello.runs
    assert (evolve(report, uid="uid-1"),) == reports.reports
    assert ("", {RunId("job-9", 1): "uid-9"}) == (report.uid, reports.uids)  # an older agent tells no uid
    assert (RUN, ReportState.GONE, Span(1500), True, False, "expired") == (
        report.run,
        report.state,
        report.ran,
        report.started,
        report.stored,
        report.stored_error,
    )
    assert Exit(ExitKind.SIGNALLED, None, "SIGSEGV", message="m", log_tail="t") == report.exit
    assert StoredResult("jobs/job-1/2/result", 4, "ab", raised=True) == report.result
    assert (Slot("n", 1, Mib(512)),) == report.slots
    assert ("i:7", {RunId("job-9", 1): Span(20)}) == (reports.cursor, reports.ran)
    assert [("POST", "/v1/hello", {"protocol": 1, "epoch": 3}), ("GET", "/v1/reports?cursor=i%3A6&wait_ms=250", None)] == server.asked
    assert [f"Bearer {TOKEN}"] * 2 == server.tokens


def test_commands_become_the_protocols_words(server: Scripted) -> None:
    """The agent on the other side may be of another version: words are all that both share."""
    write = Grant("PUT", "http://b/{name}", "jobs/job-1/2/", 10, Instant(99), {"k": "v"})
    grant = {"method": "PUT", "url": "http://b/{name}", "prefix": "jobs/job-1/2/", "max_size": 10, "expires_ms": 99, "fields": {"k": "v"}}
    read = Grant("GET", "http://b/f", "jobs/job-1/function", 4, Instant(98))
    env = Environment(("numpy",), ("rich",), {"A": "\udcff"}, BlobRef("cd", 3))
    slots = (Slot("n", 1, Mib(512)),)
    prepare = Prepare(RUN, "alice", "f", slots, (Mib(24_576),), env, {"function": Input("ab", 4, read)}, write, Span(60_000))
    renew = Renew(RUN, write, {"function": Input("ab", 4, read)})
    commands: list[Command] = [prepare, Go(RUN), Go(RUN, Span(5)), Kill(RUN, Span(7)), renew, Forget(RUN)]
    server.says({"answers": [{"ok": True, "known": True, "error": ""}] * 5 + [{"ok": False, "known": False, "error": "no"}]})
    with asking(lambda: server.address) as agent:
        answers = agent.command(3, commands)
    assert [True] * 5 + [False] == [answer.ok for answer in answers]
    assert ("no", False) == (answers[5].error, answers[5].known)
    (method, path, body) = server.asked[0]
    assert ("POST", "/v1/commands", 3) == (method, path, body["epoch"])
    expected = {
        "kind": "prepare",
        "run": "job-1/2",
        "user": "alice",
        "name": "f",
        "slots": [{"gpu": 1, "mib": 512}],
        "gpu_totals": [24_576],
        "env": {"pip": ["numpy"], "uv": ["rich"], "env_vars": {"A": "\udcff"}, "working_dir": True},
        "inputs": {
            "function": {
                "method": "GET",
                "url": "http://b/f",
                "prefix": "jobs/job-1/function",
                "max_size": 4,
                "expires_ms": 98,
                "fields": {},
                "sha256": "ab",
                "size": 4,
            }
        },
        "output": grant,
        "setup_bound_ms": 60_000,
        "uid": "",
    }
    rest = [
        {"kind": "go", "run": "job-1/2", "max_runtime_ms": None},
        {"kind": "go", "run": "job-1/2", "max_runtime_ms": 5},
        {"kind": "kill", "run": "job-1/2", "grace_ms": 7},
        {"kind": "grant", "run": "job-1/2", "output": grant, "inputs": expected["inputs"]},
        {"kind": "forget", "run": "job-1/2"},
    ]
    assert [expected, *rest] == body["commands"]


def test_a_stale_epoch_tells_the_newest(server: Scripted) -> None:
    """A deposed scheduler learns by this that it must give up."""
    server.says({"error": "stale-epoch", "newest": 12}, 409)
    with asking(lambda: server.address) as agent, pytest.raises(StaleEpoch) as refused:
        agent.command(3, [])
    assert 12 == refused.value.newest


@pytest.mark.parametrize("status", [400, 401, 500])
def test_an_agent_that_will_not_answer_is_unavailable_and_no_token_is_shown(server: Scripted, status: int) -> None:
    """Errors end in records and logs that many may read."""
    server.says({"error": "nothing for you"}, status)
    with asking(lambda: server.address) as agent, pytest.raises(Unavailable) as error:
        agent.hello(1)
    assert TOKEN not in str(error.value)


def test_requests_share_a_connection(server: Scripted) -> None:
    """Hundreds of nodes are asked all the time."""
    for _ in range(3):
        server.says(HELLO)
    with asking(lambda: server.address) as agent:
        for _ in range(3):
            agent.hello(3)
    assert 1 == len(set(server.connections))


def test_an_agent_that_moved_is_found_again(server: Scripted) -> None:
    """An agent that Ray brought back listens on another port."""
    with serving(Scripted()) as gone:
        old = gone.address
    server.says(HELLO)
    found: list[str] = []

    def find() -> str:
        found.append(server.address)
        return server.address

    with asking(lambda: found[-1] if found else old) as agent:
        agent.find = find
        assert "i" == agent.hello(3).incarnation
    assert 1 == len(found)


def test_an_agent_that_is_nowhere_is_unavailable() -> None:
    """Its node is then shown as unreachable, and its VRAM is not sold again."""
    with serving(Scripted()) as gone:
        old = gone.address
    with asking(lambda: old) as agent, pytest.raises(Unavailable, match="the agent of n"):
        agent.hello(3)


def test_tokens_differ_by_node_purpose_and_secret() -> None:
    """A token that leaks on one node must open no other, and reading logs must not allow killing."""
    tokens = [derive(secret, node) for derive in (command_token, tail_token) for secret in (b"a", b"b") for node in ("n", "m")]
    assert 8 == len(set(tokens))
    assert command_token(b"a", "n") == tokens[0]
