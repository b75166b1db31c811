"""What is said of a job's times while it runs and after."""

from __future__ import annotations

from datetime import UTC, datetime

from gridweave.commands.times import age, credited, ran

NOW = datetime(2026, 11, 29, 18, 0, 7, tzinfo=UTC)
STARTED = "2026-11-29T17:00:00.000Z"


def test_the_running_time_goes_on_between_two_measurements() -> None:
    """A number that stands still reads as a job that hangs."""
    assert "1:00:07" == ran({"phase": "Running", "started_at": STARTED, "ran_ms": 1500}, NOW)
    assert "1:00:07" == ran({"phase": "Running", "started_at": STARTED, "ran_ms": 0}, NOW)


def test_what_was_measured_counts_where_it_is_more() -> None:
    """Of several attempts only the last one's start is known, and the clock here may be behind."""
    assert "2:00:00" == ran({"phase": "Running", "started_at": STARTED, "ran_ms": 7_200_000}, NOW)
    assert "1 s" == ran({"phase": "Running", "started_at": "2026-11-29T19:00:00.000Z", "ran_ms": 1500}, NOW)


def test_after_the_end_only_what_was_measured_is_told() -> None:
    """It is what was billed, to the millisecond; what never ran has no time."""
    assert "1.500 s" == ran({"phase": "Completed", "started_at": STARTED, "ran_ms": 1500}, NOW)
    assert "2:00" == ran({"phase": "Closing", "started_at": STARTED, "ran_ms": 120_000}, NOW)
    assert "" == ran({"phase": "Pending", "started_at": None, "ran_ms": 0}, NOW)


def test_a_job_of_the_future_is_young() -> None:
    """Two machines' clocks differ; a negative age would be nonsense."""
    assert ("0 s", "") == (age({"created_at": "2026-11-29T18:00:09.000Z"}, NOW), age({"created_at": None}, NOW))


def test_credits_say_for_what_time_they_are_while_it_runs() -> None:
    """Else they do not agree with the time beside them, and the bill seems to be wrong."""
    running = {"phase": "Running", "started_at": STARTED, "ran_ms": 61_500, "charged": "0.136666"}
    assert "1:01" == credited(running)
    assert ("", "") == (credited(running | {"phase": "Completed"}), credited(running | {"charged": None}))
