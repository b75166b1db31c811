"""The machine's two clocks: the wall's, and one that neither jumps nor stops while the machine sleeps."""

from __future__ import annotations

import time

from ports.units import Instant, Span

_MS = 1_000_000  # nanoseconds


class SystemClock:
    """`ports.clock.Clock`."""

    def now(self) -> Instant:
        return Instant(time.time_ns() // _MS)

    def elapsed(self) -> Span:
        return Span(time.clock_gettime_ns(time.CLOCK_BOOTTIME) // _MS)
