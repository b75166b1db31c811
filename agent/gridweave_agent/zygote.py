"""The warm interpreter from which every run is forked: single-threaded, preloaded, with no secret in its memory.

It is started by exec with a scrubbed environment, leaves the agent's process tree (a worker's death takes its
direct children along) and ends when the agent's end of the socket closes; the supervisors it forked live on.
A request is one datagram: a byte, and the descriptor through which the new supervisor will hear of its run.
"""

from __future__ import annotations

import asyncio  # noqa: F401  preloaded, like the rest below: a run then starts with them
import concurrent.futures  # noqa: F401
import dataclasses  # noqa: F401
import enum  # noqa: F401
import gc
import json
import multiprocessing  # noqa: F401
import os
import pathlib  # noqa: F401
import random  # noqa: F401
import signal
import socket
import sys
from collections.abc import Callable

import cloudpickle  # type: ignore[import-untyped]  # it has no types  # noqa: F401

from gridweave_agent import hygiene, isolation, supervisor

FORK = b"f"
MAX_ANSWER = 4_096

BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; sys.path.insert(0, sys.argv[1]); "
    "from gridweave_agent import zygote; zygote.main(*sys.argv[1:])()"
)


def main(package: str, fd: str, isolation_mode: str) -> Callable[[], object]:
    """Serve until the agent is gone. Returns only in a forked user's process: what that has to do."""
    if os.fork():
        os._exit(0)  # the agent waits for this one only
    os.setsid()
    hygiene.reset_priority()
    hygiene.reset_signals()
    sys.path.remove(package)
    sys.path_importer_cache.pop(package, None)
    mode = isolation.choose(isolation_mode)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps supervisors
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # forked children then copy fewer pages
    agent = socket.socket(fileno=int(fd))
    while True:
        fds = _receive(agent)
        if not fds:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as error:
            _answer(agent, {"error": f"fork: {error.strerror}"})
            os.close(fds[0])
            continue
        if pid == 0:
            agent.close()
            return supervisor.supervise(mode, fds[0])
        os.close(fds[0])
        _answer(agent, {"pid": pid, "mode": mode})


def _receive(agent: socket.socket) -> list[int]:
    """The descriptor of the next request; none if the agent is gone."""
    try:
        return socket.recv_fds(agent, 1, 1)[1]
    except ConnectionResetError:
        return []


def _answer(agent: socket.socket, answer: dict[str, object]) -> None:
    try:
        agent.send(json.dumps(answer).encode())
    except OSError:
        os._exit(0)  # the agent is gone
