"""Who schedules: one process at a time, and a number that only grows with each term.

The lock makes a second scheduler unlikely; the epoch makes it harmless.
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

from ports.units import Span


@frozen
class Holder:
    """Who holds the lock now, for people. pid: 0 if it is not of this machine."""

    identity: str
    pid: int = 0


class Leadership(Protocol):
    """Raises Unavailable when it can't be asked."""

    def acquire(self) -> bool:
        """Try to become, or to stay, the one; never waits. False: somebody else is; a process that loses it must stop."""
        ...

    def release(self) -> None: ...

    def holder(self) -> Holder | None: ...


class Elections(Protocol):
    """Who leads, asked for by others than those who keep the lock. Raises Unavailable when it can't be asked."""

    def stand(self, identity: str, lasts: Span) -> bool:
        """Take the lock or renew it, for `lasts` from now on. False: somebody else has it."""
        ...

    def resign(self, identity: str) -> None:
        """No error if it is not that one's."""
        ...

    def holder(self) -> Holder | None: ...


class Epochs(Protocol):
    def read(self) -> int:
        """The highest epoch taken so far, 0 before the first."""
        ...

    def raise_to(self, epoch: int, seen: int) -> None:
        """Compare-and-swap from `seen`; raises Conflict if another was faster."""
        ...
