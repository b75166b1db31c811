"""Retention of uploads: by age, and never of what a job uses."""

from __future__ import annotations

from core.house import House, Terms
from core.names import upload_key
from core.sweep import UPLOADS_KEPT, sweep_uploads
from ports.blobs import input_key
from ports.units import Span
from tests.memory.blobs import MemoryBlobs
from tests.memory.clock import ManualClock


def house_of(clock: ManualClock, blobs: MemoryBlobs) -> House:
    unused: None = None
    return House(unused, unused, unused, unused, blobs, clock, unused, Terms(), unused)  # type: ignore[arg-type]


def test_an_upload_that_no_submit_used_goes_after_a_day_and_not_before() -> None:
    """Else every abandoned submit would fill the disk for ever."""
    clock = ManualClock()
    blobs = MemoryBlobs(clock)
    house, key = house_of(clock, blobs), upload_key("ann", "a" * 64)
    blobs.put(key, [b"x"])
    clock.advance(UPLOADS_KEPT)
    assert 0 == sweep_uploads(house)
    clock.advance(Span(1))
    assert 1 == sweep_uploads(house)
    assert blobs.stat(key) is None


def test_a_jobs_inputs_outlive_the_upload_they_came_from() -> None:
    """A queued job may wait for longer than a day."""
    clock = ManualClock()
    blobs = MemoryBlobs(clock)
    house, key = house_of(clock, blobs), upload_key("ann", "a" * 64)
    blobs.put(key, [b"x"])
    blobs.copy(key, input_key("job-1", "uid", "function"))
    clock.advance(UPLOADS_KEPT + Span(1))
    sweep_uploads(house)
    assert b"x" == b"".join(blobs.get(input_key("job-1", "uid", "function")))
