"""What a run costs, worked out here from what its user is told: the rate per hour and how long it ran."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from ports.units import Credits

MS_PER_HOUR = 3_600_000


def cost(status: dict[str, Any], gb: Fraction | int) -> Credits:
    """Of a run of `gb` GB at one credit per GB and hour: one floor to the micro-credit, nothing else is rounded."""
    return Credits(int(Fraction(gb) * 1_000_000 * status["ran_ms"] // MS_PER_HOUR))


def charged(status: dict[str, Any]) -> Credits:
    return Credits.parse(status["charged"])
