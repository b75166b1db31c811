"""Numbers as a command line gives them: "0-9", "0,3,5", a share from 0 to 1. Every fault is an Invalid that names the flag."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from ports.errors import Invalid

MOST_SEEDS = 1000
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)
_DAYS = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)


def seeds(text: str) -> tuple[int, ...]:
    """ "0-9", "7" or "0-2,5", each once."""
    found: dict[int, None] = {}
    for part in text.split(","):
        span = _SPAN.fullmatch(part.strip())
        first, last = (int(span[1]), int(span[2] or span[1])) if span is not None else (1, 0)
        if first > last or last - first >= MOST_SEEDS:
            raise Invalid(f"--seeds {text!r:.60} can't be read.", "--seeds", 'Write "0-9", "7" or "0-2,5".', text)
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def days(text: str) -> tuple[int, int]:
    """ "3" or "3-9": first and last day of a trace, counted from 0."""
    span = _DAYS.fullmatch(text.strip())
    if span is None or int(span[2] or span[1]) < int(span[1]):
        raise Invalid(
            f"--days {text!r:.60} can't be read.", "--days", 'Write a day, counted from 0, or the first and last: "3" or "3-9".', text
        )
    return int(span[1]), int(span[2] or span[1])


def share(value: float, name: str) -> float:
    if not 0 <= value <= 1:  # also for NaN
        raise Invalid(f"{name} must be from 0 to 1, not {value:g}.", name, "Give a share, as in 0.3.", value)
    return value


def positive(value: float, name: str, most: float = 1e6) -> float:
    if not (isfinite(value) and 0 < value <= most):
        raise Invalid(f"{name} must be more than 0 and at most {most:g}, not {value:g}.", name, "Give a positive number.", value)
    return value


def listed(texts: Sequence[str] | None) -> tuple[str, ...]:
    """What a flag was given, also several in one, separated by commas."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())
