"""The parent of a run on a node, forked from the zygote: it watches one run, ends it whole and records how it ended.

It knows no secret and no network. What it knows is in the run's folder, so that an agent may die and a successor
loses nothing: a lock says that it lives, a heartbeat how long the run has run, `exit.json` how it ended.
"""

from __future__ import annotations

import fcntl
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
from gridweave_agent.watch import Pipe, Pipes, Watch

_LOCK_TRIES = 100  # of 20 ms: a probe of the lock holds it for microseconds


def supervise(path: str, claim: str, mode: str, link: int) -> Callable[[], object]:
    """Watch the run in folder `path` to its end; returns only in the user's process, what that has to do.

    claim: of the agent that ordered it. Another one in the folder means that a successor has taken over.
    """
    try:
        work = _supervise(RunDir(path), claim, mode, link)
    except BaseException:
        with suppress(OSError), open(f"{path}/supervisor.err", "w", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        os._exit(1)
    if work is None:
        os._exit(0)
    return work


def _supervise(run: RunDir, claim: str, mode: str, link: int) -> Callable[[], object] | None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    hygiene.ignore_polite_signals()
    lock = _lock(run, claim)
    launch = read_json(run.launch)
    if launch is None:
        return None
    pipes, orders, status = Pipes.open(), Pipe.open(), Pipe.open()
    os.set_blocking(orders.read, False)
    mode = _isolate(mode)
    below = os.fork()
    if below == 0:
        # a lower subreaper keeps the lock: the run is not gone before both are
        kept = (lock,) if mode == isolation.SUBREAPER else ()
        become_user = partial(_become_user, launch, pipes.go.read, pipes.log.write, pipes.frames.write)
        orders.close_write()
        return inner.run(mode, orders.read, status.write, kept, become_user)
    for fd in (pipes.go.read, orders.read, status.write, pipes.log.write, pipes.frames.write):
        os.close(fd)
    write_json(run.supervisor, _marks(mode, below, pipes), sync=False)
    Watch(run, launch, mode, pipes, orders.write, status.read, below, socket.socket(fileno=link)).loop()
    return None


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
    """Take the run's lock, or end: another supervisor has it, or the folder is another agent's by now."""
    fd = os.open(run.alive, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            time.sleep(0.02)
    else:
        os._exit(1)
    with open(run.claim, encoding="ascii") as file:
        if file.read() != claim:
            os._exit(1)
    return fd


def _marks(mode: str, below: int, pipes: Pipes) -> dict[str, object]:
    """By what an agent finds the processes of this run, should this one be lost."""
    marks: dict[str, object] = {"pid": os.getpid(), "mode": mode, "below": below}
    if mode == isolation.NAMESPACE:
        marks["pid_namespace"] = os.readlink("/proc/self/ns/pid_for_children")
    return marks | {"log": os.readlink(f"/proc/self/fd/{pipes.log.read}"), "frames": os.readlink(f"/proc/self/fd/{pipes.frames.read}")}


def _become_user(launch: dict[str, object], go: int, log: int, frames: int) -> Callable[[], object]:
    """In the user's process: a session of its own, its three standard descriptors, and nothing else of ours."""
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    low = 3
    for fd in sorted((go, frames)):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 65_536)
    hygiene.reset_signals()
    return partial(_user, launch, go, frames)


def _user(launch: dict[str, object], go: int, frames: int) -> None:
    farewell.leave(runner.run(launch, go, frames))
