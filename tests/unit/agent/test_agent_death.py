"""A killed agent ends nothing and forgets nothing: its successor goes on from the journal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gridweave_agent.control import socket_address
from gridweave_agent.journal import FolderBusy, Journal

from tests.unit.agent.conftest import AGENT

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


def waiting(path: str) -> Any:
    """A function that runs until `path` exists; by value."""

    def work() -> int:
        import time

        print("waiting", flush=True)
        while not os.path.exists(path):
            time.sleep(0.01)
        print("done", flush=True)
        return 1

    return work


@pytest.fixture
def flag(tmp_path: Path) -> str:
    return str(tmp_path / "flag")


def test_a_running_run_is_adopted_and_its_end_is_reported(fresh_either: Node, flag: str) -> None:
    """The user's hours of work are not ours to lose."""
    run = fresh_either.launch(waiting(flag))
    before = fresh_either.until(run, lambda report: report["log_bytes"] > 0)
    first = fresh_either.info["incarnation"]
    fresh_either.restart()
    report = fresh_either.until(run, lambda report: report["state"] == "running")
    assert report["started"] is True
    assert report["ran_ms"] >= before["ran_ms"]
    assert first != fresh_either.info["incarnation"]
    Path(flag).touch()
    assert fresh_either.gone(run)["exit"]["kind"] == "Returned"
    assert fresh_either.result(run) == 1
    assert fresh_either.log(run) == b"waiting\ndone\n"


def test_an_adopted_run_can_be_killed(fresh_either: Node, flag: str) -> None:
    """Cancel does not depend on who started it."""
    run = fresh_either.launch(waiting(flag))
    fresh_either.until(run, lambda report: report["log_bytes"] > 0)
    fresh_either.restart()
    fresh_either.ask("kill", run, grace_ms=0)
    assert fresh_either.gone(run)["exit"]["kind"] == "Killed"


def test_a_run_that_ended_without_an_agent_is_reported_with_its_time(fresh_either: Node, flag: str) -> None:
    """The supervisor keeps the time, so that nobody pays for our pause."""
    run = fresh_either.launch(waiting(flag))
    fresh_either.until(run, lambda report: report["log_bytes"] > 0)
    fresh_either.end()
    Path(flag).touch()
    folder = fresh_either.folder_of(run)
    while not (folder / "exit.json").exists():
        os.sched_yield()
    recorded = json.loads((folder / "exit.json").read_text())
    fresh_either.start()
    report = fresh_either.gone(run)
    assert (recorded["ran_ms"], "Returned") == (report["ran_ms"], report["exit"]["kind"])
    assert fresh_either.result(run) == 1


def test_a_warm_run_is_adopted_and_can_be_told_to_go(fresh_either: Node) -> None:
    """Nothing of it was billed, nothing is lost."""
    command = fresh_either.prepared(lambda: 3)
    fresh_either.client.commands(1, [command])
    fresh_either.until(command["run"], lambda report: report["state"] == "ready")
    fresh_either.restart()
    fresh_either.until(command["run"], lambda report: report["state"] == "ready")
    assert fresh_either.ask("go", command["run"])["ok"]
    assert fresh_either.result(fresh_either.gone(command["run"])["run"]) == 3


def test_a_run_in_the_making_is_set_up_again(fresh: Node) -> None:
    """Fetching and installing can be begun anew; the command is in the journal."""
    command = fresh.prepared(lambda: 3)
    digest = command["inputs"]["function"]["sha256"]
    held = fresh.blobs.stored.pop(f"in/{digest}")
    command["inputs"]["function"]["url"] = "http://127.0.0.1:9/nobody-listens"
    fresh.client.commands(1, [command])
    fresh.end()
    path = next((fresh.folder / "node/runs").glob("*/prepare.json"))
    path.write_text(path.read_text().replace("http://127.0.0.1:9/nobody-listens", f"{fresh.blobs.url}/in/{digest}"))
    fresh.blobs.stored[f"in/{digest}"] = held
    fresh.start()
    assert fresh.until(command["run"], lambda report: report["state"] == "ready")["started"] is False


def test_a_go_that_was_recorded_and_not_passed_on_is_obeyed_by_the_successor(fresh: Node) -> None:
    """Its scheduler was never answered, and may never ask again: what is in the journal holds."""
    command = fresh.prepared(lambda: 3)
    fresh.client.commands(1, [command])
    fresh.until(command["run"], lambda report: report["state"] == "ready")
    fresh.end()
    folder = next((fresh.folder / "node/runs").iterdir())
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (folder / "go").write_text(json.dumps({"schema": 1, "do": "go", "at_ms": 0, "max_runtime_ms": None, "boot": boot, "epoch": 1}))
    fresh.start()
    report = fresh.gone(command["run"])
    assert (True, "Returned") == (report["started"], report["exit"]["kind"])


def test_a_run_whose_supervisor_died_too_is_lost_and_billed_to_its_last_heartbeat(fresh_either: Node, flag: str) -> None:
    """A machine that lost power looks like this."""
    run = fresh_either.launch(waiting(flag))
    fresh_either.until(run, lambda report: report["log_bytes"] > 0)
    folder = fresh_either.folder_of(run)
    first = (folder / "heartbeat").read_text()
    while (folder / "heartbeat").read_text() == first:
        os.sched_yield()
    fresh_either.end()
    os.kill(json.loads((folder / "supervisor.json").read_text())["pid"], signal.SIGKILL)
    beat, go = int((folder / "heartbeat").read_text().split()[0]), json.loads((folder / "go").read_text())["at_ms"]
    fresh_either.start()
    report = fresh_either.gone(run)
    assert (report["exit"]["kind"], report["started"]) == ("RunnerLost", True)
    assert beat - go <= report["ran_ms"]
    assert report["exit"]["log_tail"] == "waiting"


def test_uploads_go_on_where_they_were(fresh: Node) -> None:
    """A log cut twice in different places would be a log with holes."""
    fresh.blobs.refuse = [503] * 1000

    def work() -> None:
        for n in range(100):
            print(n)

    run = fresh.run(work)["run"]
    fresh.until(run, lambda report: report["stored_error"] != "")
    fresh.end()
    fresh.blobs.refuse.clear()
    fresh.start()
    fresh.until(run, lambda report: report["stored"])
    chunks = sorted(key for key in fresh.blobs.stored if key.startswith(f"jobs/{run}/logs/"))
    assert b"".join(fresh.blobs.stored[key] for key in chunks) == fresh.log(run)


def test_the_newest_epoch_is_remembered(fresh: Node) -> None:
    """An old scheduler that wakes up must not find an agent that has forgotten its successor."""
    fresh.client.hello(7)
    fresh.epoch = 7
    assert fresh.restart().hello["epoch"] == 7
    from gridweave_agent.client import AgentStaleEpoch

    with pytest.raises(AgentStaleEpoch) as refused:
        fresh.client.hello(6)
    assert refused.value.newest == 7


def test_a_second_agent_on_the_same_folder_waits_and_says_who_has_it(fresh: Node) -> None:
    """Two would obey two schedulers."""
    with pytest.raises(FolderBusy, match=f"process id {fresh.info['pid']}"):
        Journal.open(Path(str(fresh.config["dir"])), 50)


def test_a_long_folder_name_is_no_obstacle(make_node: Any, tmp_path: Path, flag: str) -> None:
    """A unix socket's path has 107 bytes; a site's mount points may have more."""
    fresh = make_node(dir=str(tmp_path / ("long" * 50) / "node"))
    run = fresh.launch(waiting(flag))
    fresh.until(run, lambda report: report["log_bytes"] > 0)
    fresh.restart()
    fresh.ask("kill", run, grace_ms=0)
    assert fresh.gone(run)["exit"]["kind"] == "Killed"


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    """An agent that starts with a guess would be found out too late."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"node": "n", "dir": str(tmp_path), "token": "secret-canary", "isolation": "vm", "port": "80", "colour": 1}))
    done = subprocess.run(
        [sys.executable, "-m", "gridweave_agent", str(path)],
        env={**os.environ, "PYTHONPATH": str(AGENT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "isolation: 'vm' given; wanted auto, namespace or subreaper" in done.stderr
    assert "port: str given; wanted an integer" in done.stderr
    assert "colour: unknown setting" in done.stderr
    assert "secret-canary" not in done.stderr


def test_an_order_is_heard_from_one_who_left_at_once(node: Node, flag: str) -> None:
    """Whoever takes a node down for good says so to every supervisor, and does not wait for answers."""
    run = node.launch(waiting(flag))
    node.until(run, lambda report: report["log_bytes"] > 0)
    supervisor = json.loads((node.folder_of(run) / "supervisor.json").read_text())["pid"]
    os.kill(supervisor, signal.SIGSTOP)
    address, folder = socket_address(str(node.folder_of(run) / "control"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(address)
        line.sendall(b'{"do": "kill", "grace_ms": 0}\n')
    os.close(folder)
    os.kill(supervisor, signal.SIGCONT)
    assert node.gone(run)["exit"]["kind"] == "Killed"
