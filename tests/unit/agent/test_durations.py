"""Limits are told to people, who do not count in milliseconds."""

from __future__ import annotations

import pytest
from gridweave_agent.durations import in_words


@pytest.mark.parametrize(
    ("words", "ms"),
    [
        ("2 h 30 min", 9_000_000),
        ("1 min 30 s", 90_000),
        ("48 h", 172_800_000),
        ("3 s 600 ms", 3_600),
        ("100 ms", 100),
        ("36 s", 36_000),
        ("0 s", 0),
    ],
)
def test_a_length_of_time_is_told_exactly_in_the_units_of_people(words: str, ms: int) -> None:
    """A rounded limit would look like one that was not kept."""
    assert words == in_words(ms)
