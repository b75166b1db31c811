"""Killing every process below this one, however often they fork: the subreapers' way.

Orphans of a subreaper become its children, so that whoever escapes by a double fork is found in the next round.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def kill_round() -> None:
    """Send SIGKILL to every process below this one, and at once to its process group, whose forks can't outrun that."""
    own = os.getpgrp()
    for pid in below(os.getpid()):
        with suppress(OSError):
            group = os.getpgid(pid)
            if group != own:
                os.killpg(group, signal.SIGKILL)
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def reap() -> bool:
    """Collect what has ended; whether any child is left."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True


def below(root: int) -> list[int]:
    """Process ids below `root`, nearest first."""
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        children = _children(pid)
        found += children
        queue += children
    return found


def _children(pid: int) -> list[int]:
    if not _HAS_CHILDREN:
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == pid]
    children: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                children += [int(word) for word in file.read().split()]
    return children


def _parent(pid: str) -> int:
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])
    return -1


_HAS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # CONFIG_PROC_CHILDREN of the kernel
