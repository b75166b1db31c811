"""A clock that moves when it is told to."""

from __future__ import annotations

from ports.units import Instant, Span


class ManualClock:
    """`ports.clock.Clock`: both clocks stand still between two calls of `advance`."""

    def __init__(self, start: Instant = Instant(1_764_500_000_000)) -> None:
        self._start = start
        self._elapsed = Span(0)

    def now(self) -> Instant:
        return self._start + self._elapsed

    def elapsed(self) -> Span:
        return self._elapsed

    def advance(self, by: Span) -> None:
        self._elapsed += by
