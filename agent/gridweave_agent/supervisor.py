"""The parent of a run on a node, forked from the zygote: it watches one run, ends it whole and records how it ended.

It is forked ahead, with the user's process below it, before there is a run: a line on its socket names the run, or
the socket's end ends it. It knows no secret and no network. What it knows is in the run's folder, so that an agent may
die and a successor loses nothing: a lock says that it lives, a heartbeat how long the run has run, `exit.json` how it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gridweave_agent import farewell, hygiene, inner, isolation, runner
from gridweave_agent.rundir import RunDir, read_json, write_json
from gridweave_agent.watch import Below, Pipe, Pipes, Watch

_LOCK_TRIES = 100  # of 20 ms: a probe of the lock holds it for microseconds


def supervise(mode: str, link: int) -> Callable[[], object]:
    """Watch one run to its end; returns only in the user's process, what that has to do."""
    try:
        work = _supervise(mode, link)
    except BaseException:
        os._exit(1)  # nothing was started of any run yet
    if work is None:
        os._exit(0)
    return work


def _supervise(mode: str, link: int) -> Callable[[], object] | None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    hygiene.ignore_polite_signals()
    pipes, status = Pipes.open(), Pipe.open()
    orders, received = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    received.setblocking(False)
    mode = _isolate(mode)
    below = os.fork()
    if below == 0:
        orders.close()
        return inner.run(mode, received, status.write, partial(_become_user, pipes.go.read, pipes.log.write, pipes.frames.write))
    received.close()
    for fd in (pipes.go.read, status.write, pipes.log.write, pipes.frames.write):
        os.close(fd)
    with socket.socket(fileno=link) as line:
        assignment = _assignment(line)
        if assignment is not None:
            _watch(RunDir(str(assignment["dir"])), str(assignment["claim"]), mode, line, Below(below, pipes, orders, status.read))
    return None


def _assignment(line: socket.socket) -> dict[str, object] | None:
    """{"dir", "claim"}: the run's folder, and who orders it; None if there will be none."""
    data = line.recv(65_536)
    return json.loads(data) if data.endswith(b"\n") else None


def _watch(run: RunDir, claim: str, mode: str, line: socket.socket, below: Below) -> None:
    """Watch that run, unless it is another's. claim: a different one in its folder means that a successor has taken over."""
    try:
        lock = _lock(run, claim)
        launch = read_json(run.launch)
        if lock < 0 or launch is None:
            return
        if mode == isolation.SUBREAPER:
            socket.send_fds(below.orders, [b"L"], [lock])  # it keeps the lock too: the run is not gone before both are
        write_json(run.supervisor, _marks(mode, below), sync=False)
        os.write(below.pipes.go.write, os.fsencode(run.launch) + b"\n")
        Watch(run, launch, mode, line.dup(), below).loop()
    except BaseException:
        with suppress(OSError), open(f"{run.path}/supervisor.err", "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        os._exit(1)


def _isolate(mode: str) -> str:
    """The mode that this run gets: a namespace may be refused to one run (a limit on their number) and not to the next."""
    if mode == isolation.NAMESPACE:
        try:
            isolation.unshare_pids()
        except OSError:
            mode = isolation.SUBREAPER
    if mode == isolation.SUBREAPER:
        isolation.adopt_orphans()
    return mode


def _lock(run: RunDir, claim: str) -> int:
    """Take the run's lock; -1 if another supervisor has it, or if the folder is another agent's by now."""
    fd = os.open(run.alive, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.02)
    else:
        return -1
    with open(run.claim, encoding="ascii") as file:
        return fd if file.read() == claim else -1


def _marks(mode: str, below: Below) -> dict[str, object]:
    """By what an agent finds the processes of this run, should this one be lost."""
    marks: dict[str, object] = {"pid": os.getpid(), "mode": mode, "inner": below.pid}
    if mode == isolation.NAMESPACE:
        marks["pid_namespace"] = os.readlink("/proc/self/ns/pid_for_children")
    pipes = {"log": below.pipes.log.read, "frames": below.pipes.frames.read}
    return marks | {name: os.readlink(f"/proc/self/fd/{fd}") for name, fd in pipes.items()}


def _become_user(go: int, log: int, frames: int) -> Callable[[], object]:
    """In the user's process: a session of its own, its three standard descriptors, and nothing else of ours."""
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    inner.close_all_but(go, frames)
    hygiene.reset_priority()  # again: somebody may have reniced the agent since
    hygiene.reset_signals()
    return partial(_user, go, frames)


def _user(go: int, frames: int) -> None:
    farewell.leave(runner.run(go, frames))
