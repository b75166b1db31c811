"""Runs on this machine that have no agent any more: ended through their supervisors, as their agent would end them.

Runs outlive agents and Ray on purpose. Whoever takes the local cluster down for good must say so.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from gridweave_agent.control import socket_address
from gridweave_agent.rundir import RunDir, read_json

from ports.units import Span

_POLL_S = 0.05
_PATIENCE_S = 10.0  # beyond the grace, after which supervisors themselves are killed


def end_runs(agent_dir: Path, grace: Span = Span(3000)) -> int:
    """End every run below `agent_dir` and wait until all are gone; gives how many there were.

    grace: between SIGTERM and SIGKILL. No agent may be serving any of them.
    """
    live = [run for run in map(RunDir, map(str, agent_dir.glob("*/runs/*"))) if run.locked()]
    for run in live:
        _order_kill(run, grace)
    deadline = time.monotonic() + grace.seconds + _PATIENCE_S
    while left := [run for run in live if run.locked()]:
        if time.monotonic() >= deadline:
            for run in left:
                _kill(run)
        time.sleep(_POLL_S)
    return len(live)


def _order_kill(run: RunDir, grace: Span) -> None:
    address, folder = socket_address(run.control)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control, suppress(OSError):  # it may have ended meanwhile
            control.connect(address)
            control.sendall(json.dumps({"do": "kill", "grace_ms": grace.ms}).encode() + b"\n")
    finally:
        os.close(folder)


def _kill(run: RunDir) -> None:
    """What answers no order: the process below the supervisor, then the supervisor."""
    about = read_json(run.supervisor) or {}
    for pid in (about.get("inner"), about.get("pid")):
        if isinstance(pid, int):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
