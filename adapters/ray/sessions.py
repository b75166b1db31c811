"""Processes by what can't be mistaken: a pid together with when it started, and all of a session by its leader.

A pid alone is no name: after its process ended, another may have it. A session's number is not given away while any
process is in it, so what started after a leader in its session is its own, also when the leader is gone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from attrs import frozen

_SESSION, _START = 3, 19  # fields of /proc/<pid>/stat after the name and the state's index 0
_POLL_S = 0.05


@frozen
class ProcessId:
    """started: in clock ticks since boot, as the kernel tells. boot: id of that boot."""

    pid: int
    started: int
    boot: str

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return process_id(self.pid) == self


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def process_id(pid: int) -> ProcessId | None:
    """What runs under that pid now; None if nothing does."""
    fields = _stat(pid)
    return None if fields is None else ProcessId(pid, int(fields[_START]), boot_id())


@frozen
class Session:
    """All that descends from `leader` and has not left for a session of its own."""

    leader: ProcessId

    def members(self, name: str = "") -> tuple[ProcessId, ...]:
        """Its live processes, by pid; with a name, only those of that command (as `ps -o comm` tells)."""
        now = process_id(self.leader.pid)
        if self.leader.boot != boot_id() or now not in (None, self.leader):
            return ()
        found = []
        for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
            fields = _stat(pid)
            if fields is None or int(fields[_SESSION]) != self.leader.pid or int(fields[_START]) < self.leader.started:
                continue
            if not name or _name(pid) == name:
                found.append(ProcessId(pid, int(fields[_START]), self.leader.boot))
        return tuple(found)


def end(which: Callable[[], Iterable[ProcessId]], grace_s: float = 0.5) -> None:
    """SIGTERM to all that `which` names, and SIGKILL to what is left after the grace; returns when none is left."""
    deadline = time.monotonic() + grace_s
    _signal(which(), signal.SIGTERM)
    while left := tuple(which()):
        if time.monotonic() >= deadline:
            _signal(left, signal.SIGKILL)
        time.sleep(_POLL_S)


def _signal(processes: Iterable[ProcessId], number: signal.Signals) -> None:
    for process in processes:
        if process.alive:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _stat(pid: int) -> list[str] | None:
    """Fields from the state on; None if there is no such process or it is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields
