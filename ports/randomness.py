"""Ids and secrets come in as an argument: a simulation draws them from its seed."""

from __future__ import annotations

from typing import Protocol


class Randomness(Protocol):
    def token(self) -> str:
        """A fresh string of 128 random bits, lower-case letters and digits only."""
        ...
