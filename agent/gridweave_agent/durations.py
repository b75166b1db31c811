"""A length of time as people say it."""

from __future__ import annotations

_UNITS = ((3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def in_words(ms: int) -> str:
    """`2 h 30 min`, `3 s 600 ms`: exact, without the parts that are zero. ms: 0 or more."""
    parts = []
    for unit, name in _UNITS:
        count, ms = divmod(ms, unit)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts) or "0 s"
