"""What every sink of usage events keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest
from attrs import evolve

from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from ports.metering import Metering, Usage
from ports.units import Credits, Instant, Span
from ports.workloads import RunId
from tests.contract.races import in_threads
from tests.memory.metering import MemoryMetering

FIRST = Usage("job-1/1@60000", Instant(5), "alice", RunId("job-1", 1), "tick", Span(60_000), Credits(133_333))


class Recorded(Protocol):
    """What the sink has, in order. A suite of an adapter tells how to see it."""

    def __call__(self) -> list[Usage]: ...


class MeteringContract:
    """Give fixtures `metering`: an empty one, and `recorded`."""

    def test_an_event_is_recorded_with_every_field(self, metering: Metering, recorded: Recorded) -> None:
        """Whoever meters has nothing else to go by."""
        second = evolve(FIRST, id="job-1/1@120000", run=RunId("ep", 2, 3), ran=Span(120_000))
        metering.record([FIRST, second])
        assert [FIRST, second] == recorded()

    def test_an_event_that_comes_twice_is_recorded_once(self, metering: Metering, recorded: Recorded) -> None:
        """At least once outside, once inside: also within one call."""
        metering.record([FIRST, FIRST])
        metering.record([FIRST])
        assert [FIRST] == recorded()

    def test_nothing_may_be_recorded(self, metering: Metering, recorded: Recorded) -> None:
        """A round in which nothing ran."""
        metering.record([])
        assert [] == recorded()

    def test_two_billers_record_each_event_once(self, metering: Metering, recorded: Recorded) -> None:
        """Any number of billers at once is harmless."""
        events = [evolve(FIRST, id=f"job-1/1@{number}") for number in range(20)]
        in_threads(lambda _: metering.record(events), 4)
        assert sorted(event.id for event in events) == sorted(event.id for event in recorded())


class TestMemoryMetering(MeteringContract):
    @pytest.fixture
    def metering(self) -> MemoryMetering:
        return MemoryMetering()

    @pytest.fixture
    def recorded(self, metering: MemoryMetering) -> Recorded:
        return lambda: list(metering.recorded())


class TestSqliteMetering(MeteringContract):
    @pytest.fixture
    def metering(self, tmp_path: Path) -> Iterator[SqliteMetering]:
        with closing(open_credits(tmp_path)) as database:
            yield SqliteMetering(database)

    @pytest.fixture
    def recorded(self, metering: SqliteMetering) -> Recorded:
        return lambda: [usage for _, usage in metering.recorded()]

    def test_events_are_read_on_from_a_number(self, metering: SqliteMetering) -> None:
        """A reader keeps one number and misses nothing."""
        metering.record([evolve(FIRST, id=str(number)) for number in range(5)])
        first = metering.recorded(limit=2)
        rest = metering.recorded(after=first[-1][0])
        assert ["0", "1", "2", "3", "4"] == [usage.id for _, usage in (*first, *rest)]
