"""Where the simulation breaks things: at an I/O of any process of ours, as it was armed before.

An armed fault waits for the next I/O of its kind. A paused operation lives in a thread of its own and is the only one
that runs while it runs, so that the order of everything is still that of the seed.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from attrs import define, field, frozen

from ports.errors import Unavailable

T = TypeVar("T")


class Mode(StrEnum):
    REFUSED = "no answer, nothing done"
    LOST = "done, and the answer lost"
    LATE = "no answer, done later"
    CRASH = "the process dies before it"
    CRASH_AFTER = "the process dies right after it"
    PAUSE = "the process is paused before it"


POINTS = (
    "store.replace",
    "store.replace",
    "store.replace",
    "store.put_status",
    "store.put_status",
    "store.create",
    "store.delete",
    "store.get",
    "store.list",
    "store.nodes",
    "store.changes",
    "store.raise_epoch",
    "credits.authorise",
    "credits.void",
    "credits.charge",
    "credits.charge",
    "blobs.stat",
    "blobs.copy",
    "blobs.put",
    "blobs.delete",
    "tariffs.in_force",
    "metering.record",
    "agent.hello",
    "agent.command",
    "agent.command",
    "agent.reports",
)


@frozen
class Fault:
    """At the next I/O called `what`."""

    what: str
    mode: Mode

    def __str__(self) -> str:
        return f"{self.what}: {self.mode}"


class Crash(BaseException):
    """The process is dead: nothing in core may catch it."""


class Buried(BaseException):
    """Ends the thread of a paused operation that nobody wakes."""


@define
class Paused:
    """An operation that stands still in the middle. what: the I/O before which it stands."""

    thread: threading.Thread
    what: str = ""
    ended: bool = False
    error: BaseException | None = None
    bury: bool = False
    mine: threading.Semaphore = field(factory=lambda: threading.Semaphore(0))
    theirs: threading.Semaphore = field(factory=lambda: threading.Semaphore(0))

    def end(self) -> None:
        """Its process died while it was paused."""
        self.bury = True
        self.mine.release()
        self.thread.join()

    def resume(self) -> bool:
        """Let it run until it stands again or ends; True if it has ended. Raises what it raised."""
        self.mine.release()
        self.theirs.acquire()
        if self.ended and self.error is not None:
            raise self.error
        return self.ended


@define
class Faults:
    """armed: by point. down: services that answer nothing now. late: writes that will still land. log: of writes and
    broken I/O, for the trace. hits: how often something was broken, for whoever wants to know what was covered."""

    armed: dict[str, Mode] = field(factory=dict)
    down: set[str] = field(factory=set)
    late: list[tuple[str, Callable[[], Any]]] = field(factory=list)
    log: list[str] = field(factory=list)
    hits: Counter[str] = field(factory=Counter)
    fuse: int = 0  # that many I/Os from now, whatever it is called, `blows`; 0: none does
    blows: Mode = Mode.CRASH
    _paused: Paused | None = None  # of the operation that runs now, if it may be paused

    def io(self, what: str, effect: Callable[[], T]) -> T:
        """One I/O of the current operation: `what` is service and method, as in "store.replace"."""
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                self._break(self.blows, what, effect)
        mode = self.armed.get(what)
        if mode is not None and (mode is not Mode.PAUSE or self._paused is not None):
            del self.armed[what]
            self._break(mode, what, effect)
        if what.partition(".")[0] in self.down:
            raise Unavailable(what, "it is down")
        return effect()

    def _break(self, mode: Mode, what: str, effect: Callable[[], Any]) -> None:
        self.log.append(f"! {what}: {mode}")
        self.hits[f"{what}: {mode}"] += 1
        if mode is Mode.PAUSE:
            mine, self._paused = self._paused, None
            if mine is not None:
                _stand(mine, what)
            return
        if mode in (Mode.LOST, Mode.CRASH_AFTER) and what.partition(".")[0] not in self.down:
            effect()
        if mode is Mode.LATE:
            self.late.append((what, effect))
        if mode in (Mode.CRASH, Mode.CRASH_AFTER):
            raise Crash(what)
        raise Unavailable(what, str(mode))

    @property
    def may_pause(self) -> bool:
        return Mode.PAUSE in self.armed.values()

    def start(self, act: Callable[[], object]) -> Paused | None:
        """Run an operation that may be paused; None if it ended without standing still. Raises what it raises."""
        paused = Paused(threading.Thread(daemon=True, target=lambda: None))

        def body() -> None:
            paused.mine.acquire()
            try:
                if not paused.bury:
                    act()
            except Buried:
                pass
            except BaseException as error:
                paused.error = error
            paused.ended = True
            paused.theirs.release()

        paused.thread = threading.Thread(target=body, daemon=True)
        paused.thread.start()
        self._paused = paused
        try:
            return None if paused.resume() else paused
        finally:
            self._paused = None


def _stand(paused: Paused, what: str) -> None:
    paused.what = what
    paused.theirs.release()
    paused.mine.acquire()
    if paused.bury:
        raise Buried
