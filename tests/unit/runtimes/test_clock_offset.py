"""A wall clock that tests may set, and the other clock that nobody can."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from ports.units import Instant, Span
from runtimes.clock_offset import OFFSET_FILE, clock_of


@frozen
class Stopped:
    def now(self) -> Instant:
        return Instant(1_000_000)

    def elapsed(self) -> Span:
        return Span(7)


def test_the_wall_clock_jumps_by_what_the_file_says(tmp_path: Path) -> None:
    """In the middle of a run, either way."""
    file = tmp_path / "offset"
    clock = clock_of({OFFSET_FILE: str(file)}, Stopped())
    seen = [clock.now()]
    for text in ("3600000", "-3600000", ""):
        file.write_text(text)
        seen.append(clock.now())
    assert [Instant(1_000_000), Instant(4_600_000), Instant(-2_600_000), Instant(1_000_000)] == seen
    assert Span(7) == clock.elapsed()


def test_without_the_variable_the_clock_is_the_machines() -> None:
    """What is not asked for costs nothing."""
    clock = Stopped()
    assert clock is clock_of({}, clock)
