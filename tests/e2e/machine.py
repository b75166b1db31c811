"""The processes of a node, by what they are: whom a test kills must be who it means."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gridweave_agent.rundir import RunDir, read_json

from adapters.ray.labels import NODE
from adapters.ray.local import LocalNode
from tests.e2e.rig import NODES, Rig, until


def raylet_of(rig: Rig, node: str) -> LocalNode:
    return next(each for each in rig.ray.nodes if each.labels.get(NODE) == node)


@contextmanager
def without_raylet(rig: Rig, node: str, nodes: Mapping[str, Mapping[str, str]] = NODES) -> Iterator[None]:
    """Its raylet is killed, and comes back at the end."""
    local = raylet_of(rig, node)
    assert local.raylet is not None
    os.kill(local.raylet.pid, signal.SIGKILL)
    until(lambda: not local.session.members("ray::AgentStub"), "its agent ends with it")
    try:
        yield
    finally:
        rig.ray.end_node(local)
        rig.ray.add_node(nodes[node])


def agent(rig: Rig, node: str) -> int:
    """The pid of its agent: a worker of Ray."""
    found = until(lambda: raylet_of(rig, node).session.members("ray::AgentStub"), f"an agent of {node}")
    return int(found[0].pid)


def zygote(rig: Rig, node: str) -> int:
    """The pid of the process from which its runs are forked: the only one of that program that leads nobody's child."""
    package = f"{rig.gateway.state}/agents/{node}/package/"
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        if package in _read(pid, "cmdline") and parent(pid) == 1:
            return pid
    raise AssertionError(f"{node} has no zygote")


def run_folder(rig: Rig, node: str, run: str) -> RunDir:
    return RunDir.of(Path(f"{rig.gateway.state}/agents/{node}/runs"), run)


def supervisor(rig: Rig, node: str, run: str) -> int:
    """The pid of the process that watches over that run."""
    marks = until(lambda: read_json(run_folder(rig, node, run).supervisor), f"a supervisor of {run}")
    return int(marks["pid"])


def users(rig: Rig, node: str, run: str) -> int:
    """The pid, as the machine counts, of the process in which the user's function runs."""
    marks = until(lambda: read_json(run_folder(rig, node, run).supervisor), f"a supervisor of {run}")
    return int(until(lambda: children(int(marks["inner"])), f"a process of {run}")[0])


def children(pid: int) -> list[int]:
    return [each for each in map(int, filter(str.isdigit, os.listdir("/proc"))) if parent(each) == pid]


def parent(pid: int) -> int:
    """0 if there is no such process."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
