"""A run is ended whole, whatever it does against it, and said to be gone only when nobody of it is left."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.agent.conftest import script

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


def bearers(mark: str) -> list[int]:
    """Processes that have this text among their open files' names: a mark that survives fork, setsid and an empty environment."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and any(mark in os.readlink(fd) for fd in (process / "fd").iterdir()):
                found.append(int(process.name))
        except OSError:
            continue
    return found


DAEMON = """
import os, time

def leave(path, forever):
    'Leave a process behind that has forked twice, with a session of its own and an empty environment.'
    mark = os.open(path, os.O_CREAT | os.O_RDWR)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.environ.clear()
            os.closerange(0, mark)
            os.write(mark, b"here")
            while forever:
                if os.fork():
                    os._exit(0)  # a chain: each lives for an instant
            time.sleep(1000)
        os._exit(0)
    while not os.path.getsize(path):
        time.sleep(0.001)
    print("left", flush=True)
"""


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return str(tmp_path / "mark")


@pytest.mark.parametrize("outcome", ["return 1", "raise ValueError", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_daemon_is_gone_when_the_run_is(either: Node, mark: str, outcome: str) -> None:
    """Otherwise it would sit on a GPU that the next user has booked."""
    work = script(f"{DAEMON}\ndef work(path):\n    leave(path, False)\n    {outcome}")["work"]
    assert either.log(either.run(work, (mark,))["run"]).startswith(b"left\n")
    assert bearers(mark) == []


def test_one_that_forks_all_the_time_is_gone_after_a_kill(either: Node, mark: str) -> None:
    """A pid that is known is a pid that has ended already."""
    work = script(f"{DAEMON}\ndef work(path):\n    leave(path, True)\n    time.sleep(1000)")["work"]
    run = either.launch(work, (mark,))
    either.until(run, lambda report: report["log_bytes"] > 0)
    assert either.ask("kill", run, grace_ms=0)["ok"]
    assert either.gone(run)["exit"]["kind"] == "Killed"
    assert bearers(mark) == []


def test_who_ignores_the_polite_signal_is_killed(either: Node) -> None:
    """Cancel must not depend on the cancelled."""

    def work() -> None:
        import time

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
        time.sleep(1000)

    run = either.launch(work)
    either.until(run, lambda report: report["log_bytes"] > 0)
    either.ask("kill", run, grace_ms=50)
    assert either.gone(run)["exit"]["kind"] == "Killed"


def test_the_polite_signal_gives_time_to_save(either: Node) -> None:
    """A training run writes its checkpoint then; what it returns still counts."""

    def work() -> str:
        import time

        def save(*_: object) -> None:
            raise KeyboardInterrupt

        signal.signal(signal.SIGTERM, save)
        print("at work", flush=True)
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            return "saved"
        return "never"

    run = either.launch(work)
    either.until(run, lambda report: report["log_bytes"] > 0)
    either.ask("kill", run, grace_ms=60_000)
    assert either.gone(run)["exit"]["kind"] == "Returned"
    assert either.result(run) == "saved"


def test_a_run_is_ended_at_its_limit(either: Node) -> None:
    """max_hours is a promise about money."""

    def work() -> None:
        import time

        time.sleep(1000)

    report = either.gone(either.launch(work, max_runtime_ms=100))
    assert report["exit"]["kind"] == "Killed"
    assert "limit of 100 ms" in report["exit"]["message"]
    assert report["ran_ms"] >= 100


def test_a_run_killed_before_go_never_ran(either: Node) -> None:
    """It must not be billed."""
    command = either.prepared(lambda: 1)
    either.client.commands(1, [command])
    either.until(command["run"], lambda report: report["state"] == "ready")
    either.ask("kill", command["run"], grace_ms=10_000)
    report = either.gone(command["run"])
    assert ("NeverRan", False, 0) == (report["exit"]["kind"], report["started"], report["ran_ms"])


def test_a_kill_while_inputs_are_fetched_ends_it_at_once(node: Node) -> None:
    """A store that hangs must not hold a GPU."""
    command = node.prepared(lambda: 1)
    command["inputs"]["args"]["url"] = "http://127.0.0.1:9/nobody-listens"
    node.client.commands(1, [command])
    node.ask("kill", command["run"], grace_ms=0)
    assert node.gone(command["run"])["exit"]["kind"] == "NeverRan"


def test_a_user_process_killed_from_outside_is_signalled(either: Node) -> None:
    """The OOM killer works like that; it is no end of ours."""

    def work() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    report = either.run(work)
    assert ("Signalled", "SIGKILL") == (report["exit"]["kind"], report["exit"]["signal"])


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def supervisor_of(node: Node, run: str) -> int:
    return int(json.loads((node.folder_of(run) / "supervisor.json").read_text())["pid"])


@pytest.mark.parametrize("go", [True, False])
def test_a_killed_supervisor_takes_its_run_along_and_is_reported(either: Node, mark: str, go: bool) -> None:
    """The slots may be given away only when the processes are gone; what ran is billed to the last sign of life."""

    def work() -> None:
        import time

        kept = open(mark, "w")  # noqa: SIM115  open for as long as it lives
        print("open", kept, flush=True)
        time.sleep(1000)

    command = either.prepared(work)
    either.client.commands(1, [command])
    run = command["run"]
    either.until(run, lambda report: report["state"] == "ready")
    if go:
        either.ask("go", run)
        either.until(run, lambda report: report["log_bytes"] > 0)
    os.kill(supervisor_of(either, run), signal.SIGKILL)
    report = either.gone(run)
    assert ("RunnerLost" if go else "NeverRan") == report["exit"]["kind"]
    assert report["started"] is go
    assert bearers(mark) == []


def test_a_user_who_kills_both_subreapers_gains_nothing(make_node: Any, mark: str) -> None:
    """Same uid, so it can be done; then the agent itself looks for what is left."""
    node = make_node(isolation="subreaper")

    def work() -> None:
        import time

        kept = open(mark, "w")  # noqa: SIM115  open for as long as it lives
        with open(f"/proc/{os.getppid()}/stat") as file:
            outer = int(file.read().rpartition(")")[2].split()[1])
        os.kill(outer, signal.SIGSTOP)
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(outer, signal.SIGKILL)
        time.sleep(1000)
        kept.close()

    assert node.run(work)["exit"]["kind"] == "RunnerLost"
    assert bearers(mark) == []


def test_a_killed_zygote_is_replaced_and_its_runs_live_on(either: Node) -> None:
    """It is a convenience, not a parent."""

    def work(path: str) -> int:
        import time

        while not os.path.exists(path):
            time.sleep(0.01)
        return 1

    flag = str(either.folder / "flag")
    run = either.launch(work, (flag,))
    zygote = parent_of(supervisor_of(either, run))
    assert b"zygote.main" in Path(f"/proc/{zygote}/cmdline").read_bytes()
    os.kill(zygote, signal.SIGKILL)
    assert either.value(lambda: 2) == 2
    Path(flag).touch()
    assert either.gone(run)["exit"]["kind"] == "Returned"
