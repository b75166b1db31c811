"""What the agent knows of each run, under the one lock of the process; nothing here waits for a disk or a peer.

Every change gets the next number, so that a reader who knows a number is told what came after it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from gridweave_agent import clock
from gridweave_agent.protocol import GONE, PREPARING, RUNNING, Exit, Gpu, Grant, Prepare, Result, Slot
from gridweave_agent.rundir import RunDir

KNOWN = "the run is known already"
_OTHER = "an earlier workload's run of that name is still known here"
_BARRED = "the run was ended before this came"
MOST_BARRED = 10_000  # remembered; a command is late by seconds, not by so many runs


@dataclass
class Run:
    """One run as it is now. Written only through `Table.change`.

    go_ms: of CLOCK_BOOTTIME. killed: it was ended on request. kill_ms: grace of a kill that no supervisor has heard yet.
    busy: `go` is being made durable. forked: it has a supervisor, or will have in a moment. environment: its folder.
    fetch_error: why an input can't be fetched by the grant that there is. stop: set when its set-up shall end.
    ending: held while its end is recorded.
    """

    prepare: Prepare
    dir: RunDir
    epoch: int
    output: Grant
    state: str = PREPARING
    started: bool = False
    go_ms: int = 0
    ran_ms: int = 0
    detail: str = ""
    exit: Exit | None = None
    result: Result | None = None
    stored: bool = False
    stored_error: str = ""
    fetch_error: str = ""
    log_bytes: int = 0
    killed: bool = False
    kill_ms: int | None = None
    busy: bool = False
    forked: bool = False
    environment: str = ""
    seq: int = 0
    ending: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def id(self) -> str:
        return self.prepare.run

    def ran(self) -> int:
        """Milliseconds from go until now or gone."""
        return max(0, clock.now_ms() - self.go_ms) if self.state == RUNNING else self.ran_ms

    def report(self) -> dict[str, object]:
        return {
            "run": self.id,
            "uid": self.prepare.uid,
            "state": self.state,
            "started": self.started,
            "ran_ms": self.ran(),
            "epoch": self.epoch,
            "slots": [slot.json() for slot in self.prepare.slots],
            "detail": self.detail,
            "exit": self.exit.json() if self.exit else None,
            "result": self.result.json() if self.result else None,
            "stored": self.stored,
            "stored_error": self.stored_error,
            "fetch_error": self.fetch_error,
            "log_bytes": self.log_bytes,
        }


class Table:
    """Runs by id. `changed` is the lock and the bell."""

    def __init__(self, gpus: tuple[Gpu, ...]) -> None:
        self.incarnation = secrets.token_hex(8)
        self.changed = threading.Condition()
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._runs: dict[str, Run] = {}
        # runs that are over, so that a command that comes late starts none of them; of which workload, None: of any
        self._barred: dict[str, str | None] = {}
        self._seq = 0

    def get(self, run: str) -> Run | None:
        with self.changed:
            return self._runs.get(run)

    def all(self) -> list[Run]:
        with self.changed:
            return list(self._runs.values())

    def add(self, run: Run) -> str:
        """Take the run in; "" or why not: it is KNOWN, or would take a GPU over its MiB, counting every run that is not gone."""
        with self.changed:
            refusal = self.known(run.prepare) or self._over_and_done(run.prepare) or self.refusal(run.prepare.slots)
            if not refusal:
                self._runs[run.id] = run
                self._mark(run)
            return refusal

    def known(self, prepare: Prepare) -> str:
        """KNOWN if that very run is here, another refusal if one of its name is, "" if none is."""
        with self.changed:
            found = self._runs.get(prepare.run)
            if found is None:
                return ""
            return KNOWN if found.prepare.uid == prepare.uid else _OTHER

    def adopt(self, run: Run) -> None:
        """Take in a run of a predecessor, whatever it holds."""
        with self.changed:
            self._runs[run.id] = run
            self._mark(run)

    def change(self, run: Run, update: Callable[[Run], object]) -> None:
        """Apply `update` under the lock and tell the readers. A run that is gone or forgotten keeps its state."""
        with self.changed:
            before = (run.state, run.exit)
            update(run)
            if before[0] == GONE and before != (run.state, run.exit):
                run.state, run.exit = before
            if self._runs.get(run.id) is run:
                self._mark(run)

    def forget(self, run: Run) -> None:
        with self.changed:
            if self._runs.get(run.id) is run:
                del self._runs[run.id]
                self._bar(run.id, run.prepare.uid)
            self.changed.notify_all()

    def bar(self, run: str, note: Callable[[str], None]) -> bool:
        """Take that run in no more, whatever comes; False if it is here. note: called before it is so, if it was not so already."""
        with self.changed:
            if run in self._runs:
                return False
            if self._barred.get(run, "") is not None:
                note(run)
                self._bar(run, None)
            return True

    def _bar(self, run: str, uid: str | None) -> None:
        self._barred[run] = uid
        if len(self._barred) > MOST_BARRED:
            del self._barred[next(iter(self._barred))]

    def _over_and_done(self, prepare: Prepare) -> str:
        return _BARRED if prepare.run in self._barred and self._barred[prepare.run] in (None, prepare.uid) else ""

    def reports(self, cursor: str, wait_ms: int) -> dict[str, object]:
        """What changed after the cursor; waits up to `wait_ms` for the first change."""
        incarnation, _, number = cursor.partition(":")
        since = int(number) if incarnation == self.incarnation and number.isdecimal() else -1
        until = time.monotonic() + wait_ms / 1000
        with self.changed:
            while since >= self._seq and (left := until - time.monotonic()) > 0:
                self.changed.wait(left)
            running = [run for run in self._runs.values() if run.state == RUNNING]
            return {
                "cursor": f"{self.incarnation}:{self._seq}",
                "incarnation": self.incarnation,
                "reports": [run.report() for run in self._runs.values() if run.seq > since],
                "ran": {run.id: run.ran() for run in running},
                "uids": {run.id: run.prepare.uid for run in running},
            }

    def wait_for_log(self, run: Run, offset: int, wait_ms: int) -> None:
        """Return when the log has grown past `offset`, the run is gone, or the time is over."""
        until = time.monotonic() + wait_ms / 1000
        with self.changed:
            while (
                run.log_bytes <= offset and run.state != GONE and self._runs.get(run.id) is run and (left := until - time.monotonic()) > 0
            ):
                self.changed.wait(left)

    def _mark(self, run: Run) -> None:
        self._seq += 1
        run.seq = self._seq
        self.changed.notify_all()

    def refusal(self, slots: tuple[Slot, ...]) -> str:
        """Why these slots can't be given now, "" if they can."""
        with self.changed:
            return self._over(slots)

    def _over(self, slots: tuple[Slot, ...]) -> str:
        wanted = Counter({slot.gpu: 0 for slot in slots})
        for slot in slots:
            wanted[slot.gpu] += slot.mib
        for index, mib in wanted.items():
            gpu = self._gpus.get(index)
            if gpu is None:
                return f"this node has no GPU {index}"
            held = sum(slot.mib for run in self._runs.values() if run.state != GONE for slot in run.prepare.slots if slot.gpu == index)
            if held + mib > gpu.total_mib:
                return f"GPU {index} has {gpu.total_mib} MiB, of which {held} are held by live runs; {mib} more do not fit"
        return ""
