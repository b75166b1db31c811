"""What became of a run whose supervisor does not talk to us: it recorded the end, it lives, or it is lost.

Used when an agent starts over its predecessor's journal, and when a supervisor's line ends. A lost run is said to be
gone only when no process of it is left, and is billed to its last proof of life.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from gridweave_agent import ending
from gridweave_agent.ended import Ended
from gridweave_agent.links import Links
from gridweave_agent.protocol import NEVER_RAN, PREPARING, RUNNER_LOST, RUNNING, SETUP_FAILED, Exit
from gridweave_agent.rundir import RunDir, persistently, read_json
from gridweave_agent.table import Run, Table

log = logging.getLogger("gridweave_agent")

ADOPTED, SET_UP_AGAIN = "adopted", "set up again"


class Adoption:
    """end: records that a run is gone."""

    def __init__(self, table: Table, links: Links, end: Callable[[Run, Ended], None]) -> None:
        self._table, self._links, self._end = table, links, end

    def take(self, run: Run) -> str:
        """Settle a predecessor's run: ADOPTED, or SET_UP_AGAIN if nothing of it was started."""
        go = read_json(run.dir.go)
        if go is not None:

            def started(run: Run) -> None:
                run.started, run.go_ms, run.state = True, int(str(go["at_ms"])), RUNNING

            self._table.change(run, started)
        run.log_bytes = os.path.getsize(run.dir.log) if os.path.exists(run.dir.log) else 0
        if self.ended(run):
            return ADOPTED
        if go is None:
            with suppress(OSError), open(run.dir.claim, "w", encoding="ascii") as file:
                file.write(self._table.incarnation)  # a supervisor that is only now being forked for the predecessor will see it and end
            if not run.dir.locked():
                return SET_UP_AGAIN
        run.forked = True
        run.environment = str((read_json(run.dir.launch) or {}).get("venv") or "").removesuffix("/venv")
        self.look_into(run)
        return ADOPTED

    def ended(self, run: Run) -> bool:
        """Whether the supervisor recorded the end; then the run is gone."""
        record = Ended.read(run.dir)
        if record is None:
            return False
        self._end(run, record)
        return True

    def look_into(self, run: Run) -> None:
        """Find out in a thread: reconnect to a supervisor that lives, wait for one that is ending, bury a lost one."""
        threading.Thread(target=self._find_out, args=(run,), name="adoption", daemon=True).start()

    def _find_out(self, run: Run) -> None:
        while run.dir.locked():
            if self.ended(run) or self._links.connect(run.id, run.dir.control):
                return
            time.sleep(0.05)
        if not self.ended(run):
            _kill_rest(run.dir, run.id)
            if not self.ended(run):
                persistently(lambda: self._bury(run))

    def _bury(self, run: Run) -> None:
        tail = ending.tail(run.dir.log)
        if run.started:
            how = Exit(
                RUNNER_LOST, message="The process that supervised the run is gone; it was billed to the last sign of life.", log_tail=tail
            )
        elif run.killed:
            how = Exit(NEVER_RAN, message="It was ended on request.")
        elif run.state == PREPARING:
            how = Exit(SETUP_FAILED, message="The process that supervises the run ended before it was ready." + _crash(run.dir))
        else:
            how = Exit(NEVER_RAN, message="The process that supervised the run was lost before it was told to go.")
        self._end(run, Ended(how, run.started, last_sign_of_life(run.dir), run.log_bytes))


def _crash(folder: RunDir) -> str:
    try:
        with open(f"{folder.path}/supervisor.err", encoding="utf-8") as file:
            return "\n" + file.read()[-2000:]
    except OSError:
        return ""


def last_sign_of_life(folder: RunDir) -> int:
    """Milliseconds from go to the last heartbeat of the same boot; 0 if there is none."""
    go = read_json(folder.go)
    try:
        with open(folder.heartbeat, encoding="ascii") as file:
            at, boot = file.read().split()
    except (OSError, ValueError):
        return 0
    return max(0, int(at) - int(str(go["at_ms"]))) if go is not None and go.get("boot") == boot else 0


def _kill_rest(folder: RunDir, run: str) -> None:
    """Kill what a lost supervisor left, until none is left: members of its PID namespace, or bearers of the run's marks."""
    known = read_json(folder.supervisor) or {}
    namespace, pipes = str(known.get("pid_namespace", "")), {str(known.get("log")), str(known.get("frames"))}
    mark = f"GRIDWEAVE_RUN={run}".encode()
    while rest := [pid for pid in _processes() if _in_namespace(pid, namespace) or (not namespace and _marked(pid, pipes, mark))]:
        for pid in rest:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _in_namespace(pid: int, namespace: str) -> bool:
    with suppress(OSError):
        return bool(namespace) and os.readlink(f"/proc/{pid}/ns/pid") == namespace
    return False


def _marked(pid: int, pipes: set[str], mark: bytes) -> bool:
    """Whether a process has a pipe of the run open, or the run's name in its environment."""
    with suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in pipes:
                    return True
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return mark in file.read().split(b"\0")
    return False
