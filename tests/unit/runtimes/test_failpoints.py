"""Failpoints: a process that is told to dies at exactly that call, and one that is not told anything is as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ports.errors import Invalid
from runtimes.failpoints import FAILPOINT, LOG, Failpoint, Failpoints, check
from runtimes.settings import WrongSettingsError

PROGRAM = """
import os, sys
from core.house import House, Terms
from runtimes.failpoints import Failpoints
class Store:
    def get(self, job):
        print("get", job, flush=True)
        return job
class Agent:
    def command(self, epoch, commands):
        print("command", flush=True)
class Cluster:
    def agent(self, node):
        return Agent()
class Go: pass
points = Failpoints.read(os.environ)
house = points.house(House(Store(), Store(), Store(), Store(), Store(), None, None, Terms(), Store()))
for n in range(3):
    house.workloads.get(n)
points.wrapped(Cluster(), "cluster").agent("n").command(1, [Go()])
print("end", flush=True)
"""


def run(point: str, log: Path) -> subprocess.CompletedProcess[str]:
    env = {FAILPOINT: point, LOG: str(log), "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("point", "printed"),
    [
        ("workloads.get", []),
        ("workloads.get:after", ["get 0"]),
        ("workloads.get:before:3", ["get 0", "get 1"]),
        ("agent.go:before", ["get 0", "get 1", "get 2"]),
        ("agent.command:after:1", ["get 0", "get 1", "get 2", "command"]),
    ],
)
def test_the_process_dies_at_that_call(point: str, printed: list[str], tmp_path: Path) -> None:
    """A crash test that crashes elsewhere proves something else."""
    done = run(point, tmp_path / "log")
    assert -signal.SIGKILL == done.returncode, done.stderr
    assert printed == done.stdout.splitlines()
    assert f"!{Failpoint.parse(point)}" == (tmp_path / "log").read_text().split()[-1]


def test_a_process_that_is_stopped_goes_on_from_that_very_call(tmp_path: Path) -> None:
    """What a paused process does when it wakes is what is tested with it."""
    env = {FAILPOINT: "workloads.get:before:2:stop", "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE, text=True) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        printed, _ = process.communicate(timeout=60)
    assert (0, ["get 0", "get 1", "get 2", "command", "end"]) == (process.returncode, printed.splitlines())


def test_a_call_that_does_not_come_harms_nobody(tmp_path: Path) -> None:
    """The log says what did come."""
    done = run("workloads.get:before:4", tmp_path / "log")
    assert (0, "end") == (done.returncode, done.stdout.split()[-1])
    assert ["workloads.get@"] * 3 + ["cluster.agent@", "agent.command@", "agent.go@"] == (tmp_path / "log").read_text().split()


@pytest.mark.parametrize(
    "text",
    ["", " ", "workloads", "work.get", "workloads.get:later", "workloads.get:before:0", "agent.go:after:x", "agent.go:before:1:pause"],
)
def test_a_failpoint_that_is_none_is_refused(text: str) -> None:
    """A mistyped one would let a test pass that tests nothing."""
    with pytest.raises(Invalid, match=FAILPOINT):
        Failpoint.parse(text)


def test_a_wrong_failpoint_stops_the_start() -> None:
    """It is a wrong setting like any other."""
    with pytest.raises(WrongSettingsError, match=r"workloads\.oops"):
        check({FAILPOINT: "workloads.oops:now"})


def test_without_the_variables_nothing_is_wrapped() -> None:
    """What is not asked for costs nothing."""
    assert Failpoints.read({}) is None


def test_its_text_is_its_grammar() -> None:
    """The log's mark is compared with what was asked for."""
    for text in ("agent.go:before:1", "agent.go:after:1:stop", "workloads.replace@schedule._write<schedule._start:after:12"):
        assert text == str(Failpoint.parse(text))
