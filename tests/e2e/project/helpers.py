"""A module beside the script."""

from shapes.circle import area

FACTOR = 3


def scaled(radius: float) -> float:
    return FACTOR * area(radius)
