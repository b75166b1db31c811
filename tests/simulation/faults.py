"""Where the simulation breaks things: at every I/O, by what the current operation's fault says.

An operation is one call into core by one process of ours. Its fault names the n-th I/O of it and what happens there.
A paused operation lives in a thread of its own and is the only one that runs while it runs, so that the order of
everything is still that of the seed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


PLAIN = (Mode.REFUSED, Mode.LOST, Mode.LATE)
DEADLY = (Mode.CRASH, Mode.CRASH_AFTER)


@frozen
class Fault:
    """At the `at`-th I/O of an operation, from 1."""

    at: int
    mode: Mode

    def __str__(self) -> str:
        return f"I/O {self.at}: {self.mode}"


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

    def resume(self) -> bool:
        """Let it run until it stands again or ends; True if it has ended. Raises what it raised."""
        self.mine.release()
        self.theirs.acquire()
        if self.ended and self.error is not None:
            raise self.error
        return self.ended


@define
class Operation:
    fault: Fault | None
    count: int = 0
    paused: Paused | None = None


@define
class Faults:
    """down: services that answer nothing now. late: writes that will still land. log: of I/O with a fault, for the trace."""

    down: set[str] = field(factory=set)
    late: list[tuple[str, Callable[[], Any]]] = field(factory=list)
    log: list[str] = field(factory=list)
    points: dict[str, int] = field(factory=dict)
    _now: Operation = field(factory=lambda: Operation(None))

    def io(self, what: str, effect: Callable[[], T]) -> T:
        """One I/O of the current operation: `what` is service and method, as in "store.replace"."""
        now = self._now
        now.count += 1
        if now.fault is not None and now.count == now.fault.at:
            self._break(now, now.fault.mode, what, effect)
        if what.partition(".")[0] in self.down:
            raise Unavailable(what, "it is down")
        return effect()

    def _break(self, now: Operation, mode: Mode, what: str, effect: Callable[[], Any]) -> None:
        self.log.append(f"{what}: {mode}")
        self.points[what] = self.points.get(what, 0) + 1
        if mode is Mode.PAUSE:
            if now.paused is not None:
                _stand(now.paused, what)
                self._now = now
            return
        if mode in (Mode.LOST, Mode.CRASH_AFTER) and what.partition(".")[0] not in self.down:
            effect()
        if mode is Mode.LATE:
            self.late.append((what, effect))
        if mode in DEADLY:
            raise Crash(what)
        raise Unavailable(what, str(mode))

    @contextmanager
    def operation(self, fault: Fault | None = None) -> Iterator[Operation]:
        outer, self._now = self._now, Operation(fault)
        try:
            yield self._now
        finally:
            self._now = outer

    def start(self, fault: Fault, act: Callable[[], object]) -> Paused | None:
        """Run an operation that may be paused; None if it ended without standing still. Raises what it raises."""
        paused = Paused(threading.Thread(daemon=True, target=lambda: None))

        def body() -> None:
            paused.mine.acquire()
            try:
                if not paused.bury:
                    with self.operation(fault) as mine:
                        mine.paused = paused
                        act()
            except Buried:
                pass
            except BaseException as error:
                paused.error = error
            paused.ended = True
            paused.theirs.release()

        paused.thread = threading.Thread(target=body, daemon=True)
        paused.thread.start()
        return None if self.resume(paused) else paused

    def resume(self, paused: Paused) -> bool:
        outer = self._now
        try:
            return paused.resume()
        finally:
            self._now = outer

    def bury(self, paused: Paused) -> None:
        """Its process died while it was paused."""
        paused.bury = True
        outer = self._now
        paused.mine.release()
        paused.theirs.acquire()
        self._now = outer
        paused.thread.join()


def _stand(paused: Paused, what: str) -> None:
    paused.what = what
    paused.theirs.release()
    paused.mine.acquire()
    if paused.bury:
        raise Buried
