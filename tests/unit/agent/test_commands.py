"""What an agent obeys, and what it refuses in words."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gridweave_agent.client import AgentClient, AgentStaleEpoch, AgentUnavailable

from tests.unit.agent.conftest import GPUS, TAIL_TOKEN, TOKEN

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


def ready(node: Node, function: Any, **fields: Any) -> str:
    command = node.prepared(function, **fields)
    node.client.commands(node.epoch, [command])
    node.until(command["run"], lambda report: report["state"] == "ready")
    return str(command["run"])


def test_hello_tells_the_node(node: Node) -> None:
    """The scheduler's ledger is built from it."""
    assert node.hello["node"] == "n1"
    assert node.hello["gpus"] == GPUS
    assert node.hello["incarnation"] == node.info["incarnation"]
    assert node.hello["protocol"] == 1


def test_commands_of_an_older_epoch_are_refused(fresh: Node) -> None:
    """A paused predecessor wakes up and still thinks that it rules."""
    run = ready(fresh, lambda: 1)
    fresh.client.hello(5)
    with pytest.raises(AgentStaleEpoch):
        fresh.client.commands(4, [{"kind": "go", "run": run}])
    assert fresh.report(run)["state"] == "ready"


def test_go_is_obeyed_once(node: Node, tmp_path: Path) -> None:
    """A lost answer is asked again; a training run must not start twice."""
    path = tmp_path / "times"

    def work() -> None:
        with open(path, "a") as file:
            file.write("x")

    run = ready(node, work)
    answers = node.client.commands(1, [{"kind": "go", "run": run}] * 3)
    assert [True, True, True] == [answer["ok"] for answer in answers]
    node.gone(run)
    assert node.ask("go", run)["ok"]
    assert path.read_text() == "x"


def test_prepare_again_is_the_same_run(node: Node) -> None:
    """Also after its end: it must not be run a second time."""
    command = node.prepared(lambda: 1)
    assert [True, True] == [answer["ok"] for answer in node.client.commands(1, [command, command])]
    node.until(command["run"], lambda report: report["state"] == "ready")
    node.ask("go", command["run"])
    node.gone(command["run"])
    assert node.client.commands(1, [command])[0]["ok"]
    assert node.report(command["run"])["state"] == "gone"


def test_a_run_of_the_same_name_of_another_workload_is_another_run(node: Node) -> None:
    """A workload made anew under an ended one's name gets neither its end nor its bar; a late command still gets the latter."""
    first = node.prepared(lambda: 1, uid="first")
    second = {**node.prepared(lambda: 2, uid="second"), "run": first["run"]}
    (taken,) = node.client.commands(1, [first])
    node.until(first["run"], lambda report: report["state"] == "ready")
    (other,) = node.client.commands(1, [second])
    assert (True, False) == (taken["ok"], other["ok"])
    assert "earlier workload" in str(other["error"])
    assert "first" == node.report(first["run"])["uid"]
    node.ask("kill", first["run"])
    node.gone(first["run"])
    node.ask("forget", first["run"])
    (late,) = node.client.commands(1, [first])
    assert "was ended before" in str(late["error"])
    assert node.client.commands(1, [second])[0]["ok"]
    node.until(first["run"], lambda report: report["state"] == "ready")
    assert "second" == node.report(first["run"])["uid"]
    node.ask("kill", first["run"])
    node.gone(first["run"])


def test_a_gpu_is_never_taken_over_its_memory(fresh: Node) -> None:
    """The last word is the agent's, whatever a ledger thinks."""
    first = ready(fresh, lambda: 1, slots=[{"gpu": 0, "mib": 80_000}])
    second = fresh.prepared(lambda: 2, slots=[{"gpu": 0, "mib": 2_000}])
    answer = fresh.client.commands(1, [second])[0]
    assert answer["ok"] is False
    assert "80000 are held by live runs" in str(answer["error"])
    fresh.ask("kill", first)
    fresh.gone(first)
    assert fresh.client.commands(1, [second])[0]["ok"]


def test_a_gpu_that_is_not_there_is_refused(node: Node) -> None:
    """A ledger of another machine must not be obeyed."""
    answer = node.client.commands(1, [node.prepared(lambda: 1, slots=[{"gpu": 9, "mib": 1}])])[0]
    assert answer == {"ok": False, "known": True, "error": "this node has no GPU 9"}


def test_a_run_that_is_not_known_is_not_known(node: Node) -> None:
    """A scheduler concludes from it that go was never obeyed here."""
    assert node.ask("go", "x/1") == {"ok": False, "known": False, "error": "unknown run"}
    assert [False, False] == [node.ask(kind, "x/1")["known"] for kind in ("kill", "forget")]


def test_go_before_ready_is_refused(node: Node) -> None:
    """What is billed starts with go."""
    command = node.prepared(lambda: 1)
    command["inputs"]["args"]["url"] = "http://127.0.0.1:9/nobody-listens"
    node.client.commands(1, [command])
    assert node.ask("go", command["run"])["error"] == "not ready"
    node.ask("kill", command["run"])


def test_only_what_is_gone_is_forgotten_and_then_nothing_is_left(fresh: Node) -> None:
    """A fresh's disk must not fill with what is closed."""
    run = ready(fresh, lambda: 1)
    assert fresh.ask("forget", run)["ok"] is False
    fresh.ask("go", run)
    fresh.gone(run)
    assert fresh.ask("forget", run)["ok"]
    assert list((fresh.folder / "node/runs").iterdir()) == []
    assert fresh.client.reports()["reports"] == []
    assert fresh.client.log(run) is None


def test_a_prepare_that_comes_after_its_run_was_killed_or_forgotten_starts_nothing(fresh: Node) -> None:
    """A request may lie in a buffer for a while: whoever was told that a run is unknown must be able to rely on it."""
    command = fresh.prepared(len, run="late/1")
    assert fresh.ask("kill", "late/1")["known"] is False
    run = fresh.run(len, ((),))["run"]
    assert fresh.ask("forget", run)["ok"]
    for late in (command, fresh.prepared(len, run=run)):
        answer = fresh.client.commands(fresh.epoch, [late])[0]
        assert (False, "the run was ended before this came") == (answer["ok"], answer["error"])
    assert [] == fresh.client.reports()["reports"]


def test_a_prepare_that_comes_after_its_run_was_killed_starts_nothing_after_a_restart_either(fresh: Node) -> None:
    """Its VRAM is given to others once the agent has said that the run is not here; a new agent must not take it in."""
    command = fresh.prepared(len, run="late/1")
    assert fresh.ask("kill", "late/1")["known"] is False
    fresh.restart()
    answer = fresh.client.commands(fresh.epoch, [command])[0]
    assert (False, "the run was ended before this came") == (answer["ok"], answer["error"])
    assert [] == fresh.client.reports()["reports"]


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ({"kind": "dance", "run": "a/1"}, "kind: 'dance' given"),
        ({"kind": "kill"}, "run: missing"),
        ({"kind": "kill", "run": "a\n1"}, "run: 'a\\n1' given"),
        ({"kind": "kill", "run": 7}, "run: int given"),
        (["kill"], "command: wanted an object"),
        ({"kind": "prepare", "run": "a/1", "slots": [{"gpu": -1, "mib": 1}]}, "gpu: -1 given"),
        ({"kind": "prepare", "run": "a/1", "slots": [], "inputs": {}}, "inputs.args: missing"),
    ],
)
def test_a_bad_command_is_answered_in_words(node: Node, command: Any, wrong: str) -> None:
    """The others of the same request are obeyed all the same."""
    answers = node.client.commands(1, [command, {"kind": "kill", "run": "x/1"}])
    assert wrong in str(answers[0]["error"])
    assert answers[1]["ok"] is True


@pytest.mark.parametrize("name", ["A=B", "", "A\0"])
def test_a_variable_that_no_process_can_have_is_refused(node: Node, name: str) -> None:
    """Better now than when the run should start."""
    answer = node.client.commands(1, [node.prepared(lambda: 1, env={"env_vars": {name: "x"}})])[0]
    assert "env_vars" in str(answer["error"])


def request(node: Node, method: str, path: str, token: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, Any]]:
    host, port = node.info["address"].removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port))
    connection.request(method, path, body, {"Authorization": f"Bearer {token}", **headers})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    try:
        return answer.status, json.loads(content)
    except ValueError:
        return answer.status, {}


@pytest.mark.parametrize("token", ["", "wrong", TAIL_TOKEN, "é"])
def test_without_the_command_token_nothing_is_told(node: Node, token: str) -> None:
    """Anyone on the node can reach the port."""
    token = token.encode().decode("latin-1")
    for method, path in (("POST", "/v1/hello"), ("POST", "/v1/commands"), ("GET", "/v1/reports")):
        assert request(node, method, path, token, b"{}")[0] == 401


def test_the_tail_token_reads_logs_only(node: Node) -> None:
    """Gateways have it, and command nothing."""
    run = node.run(lambda: print("x"))["run"]
    assert request(node, "GET", f"/v1/log?run={run}", TAIL_TOKEN)[0] == 200
    assert request(node, "GET", f"/v1/log?run={run}", "wrong")[0] == 401


def test_another_protocol_is_refused_with_both_versions(node: Node) -> None:
    """N talks to N-1; what can't be understood must say so."""
    status, answer = request(node, "POST", "/v1/hello", TOKEN, b'{"protocol": 9, "epoch": 1}')
    assert status == 400
    assert answer["error"] == "protocol: 9 given; this agent talks 1"


@pytest.mark.parametrize(("body", "headers"), [(b"{", {}), (b"[]", {}), (b"{}", {}), (b"{}", {"Content-Length": "999999999999"})])
def test_a_bad_body_is_a_bad_request(node: Node, body: bytes, headers: dict[str, str]) -> None:
    """And the agent serves on."""
    assert request(node, "POST", "/v1/commands", TOKEN, body, **headers)[0] == 400
    assert node.client.hello(1)["node"] == "n1"


def test_a_report_waits_for_a_change_and_an_old_cursor_gets_all(node: Node) -> None:
    """Who missed some reads the newest and has missed nothing."""
    run = node.run(lambda: 1)["run"]
    node.until(run, lambda report: report["stored"])
    cursor = str(node.client.reports()["cursor"])
    assert node.client.reports(cursor)["reports"] == []
    assert run in [report["run"] for report in node.client.reports("another:99")["reports"]]


def test_more_connections_than_are_served_are_told_so(make_node: Any) -> None:
    """A flood must cost the node no memory."""
    node = make_node(max_threads=3)
    host, port = node.info["address"].removeprefix("http://").split(":")
    node.client.hello(1)  # on a connection that is kept
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_connection((host, int(port)))) for _ in range(3)]
        assert sockets[-1].recv(100).startswith(b"HTTP/1.1 503 ")
    while not served(node):  # again, when the others have left
        pass


def served(node: Node) -> bool:
    try:
        return bool(node.client.reports()["incarnation"] and node.ask("kill", "x/1")["ok"])
    except AgentUnavailable:
        return False


def test_an_agent_that_is_not_there_is_unavailable() -> None:
    """Not any other error, and not for ever."""
    with pytest.raises(AgentUnavailable, match="can't be reached"):
        AgentClient("http://127.0.0.1:9", TOKEN).hello(1)
