"""Time comes in as an argument: a decision never reads it."""

from __future__ import annotations

from typing import Protocol

from ports.units import Instant, Span


class Clock(Protocol):
    def now(self) -> Instant:
        """Wall-clock time, for records and people. It may jump."""
        ...

    def elapsed(self) -> Span:
        """Time since some fixed point that neither jumps nor stops in sleep. For time-outs."""
        ...
