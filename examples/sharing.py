"""What exceptions.py imports: a dataclass, an enum and an exception of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass(frozen=True)
class Portion:
    apples: float
    size: Size


class NobodyThere(Exception):  # noqa: N818 - a user's own name
    def __init__(self, apples: int) -> None:
        super().__init__(f"nobody is there for {apples} apple(s)")
        self.apples = apples

    def __reduce__(self) -> tuple[type[NobodyThere], tuple[int]]:
        """An exception whose arguments are not its message tells pickle how to make it again."""
        return NobodyThere, (self.apples,)
