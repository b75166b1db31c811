"""What every clock keeps to."""

from __future__ import annotations

import pytest

from adapters.local.clock import SystemClock
from ports.clock import Clock
from ports.units import Instant, Span
from tests.memory.clock import ManualClock


class ClockContract:
    """Give a fixture `clock`."""

    def test_it_tells_milliseconds_of_this_age(self, clock: Clock) -> None:
        """A clock in seconds or microseconds would put every record into another century."""
        year_2020, year_2100 = Instant(1_577_836_800_000), Instant(4_102_444_800_000)
        assert year_2020 < clock.now() < year_2100

    def test_elapsed_time_never_runs_back(self, clock: Clock) -> None:
        """A time-out that was over must stay over."""
        read = [clock.elapsed() for _ in range(1000)]
        assert sorted(read) == read


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> SystemClock:
        return SystemClock()


class TestManualClock(ClockContract):
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    def test_it_moves_when_it_is_told_to(self) -> None:
        """A simulation's time is its own."""
        clock = ManualClock(Instant(10))
        clock.advance(Span(5))
        assert (Instant(15), Span(5)) == (clock.now(), clock.elapsed())
