"""What exceptions.py imports: a dataclass, an enum and an exception of the user's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class OutOfStock(Exception):  # noqa: N818 - a user's own name
    def __init__(self, size: Size) -> None:
        super().__init__(f"no {size.value} ones left")
        self.size = size

    def __reduce__(self) -> tuple[type[OutOfStock], tuple[Size]]:
        """An exception whose arguments are not its message tells pickle how to make it again."""
        return OutOfStock, (self.size,)


@dataclass(frozen=True)
class Order:
    size: Size
    count: int
    done: bool = False

    def packed(self) -> Order:
        return replace(self, done=True)
