"""A wall clock that a test may set: the machine's, plus what a file says, read anew at each look.

    GRIDWEAVE_CLOCK_OFFSET_FILE = FILE

The file holds a whole number of milliseconds, negative for the past; without the file there is no offset. Elapsed time is
the machine's own: no wall clock that is set changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from ports.clock import Clock
from ports.units import Instant, Span

OFFSET_FILE = "GRIDWEAVE_CLOCK_OFFSET_FILE"


@frozen
class OffsetClock:
    clock: Clock
    file: Path

    def now(self) -> Instant:
        try:
            offset = int(self.file.read_text())
        except (FileNotFoundError, ValueError):  # not there yet, or being written
            offset = 0
        return Instant(self.clock.now().ms + offset)

    def elapsed(self) -> Span:
        return self.clock.elapsed()


def clock_of(environment: Mapping[str, str], clock: Clock) -> Clock:
    """The machine's, unless the environment names a file."""
    file = environment.get(OFFSET_FILE, "")
    return OffsetClock(clock, Path(file)) if file else clock
