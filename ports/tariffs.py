"""Versioned price lists, and the price that one of them gave for a run.

All rates are micro-credits per hour. Shares are parts per million, so that no float touches money.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attrs import field, frozen

from ports.units import Instant, Rate

PPM = 1_000_000


@frozen
class Splits:
    """The platform's share of rentals and of paid calls, in parts per million; the rest is the payee's."""

    rental_fee_ppm: int = 0
    call_fee_ppm: int = 100_000


@frozen
class Tariff:
    """A price list.

    base_rate: of org hardware, once per run, micro-credits per hour.
    vram_rate: of org hardware, micro-credits per GB (1024 MiB) and hour.
    org_models: org's own rate per whole GPU of a model and hour; replaces the formula for that GPU.
    providers: a provider's rate per whole GPU of a model and hour; without one, org's formula.
    effective: placements from this instant on take it.
    by, at: who published it, and when; "" and 0 for the first, which comes from the settings.
    """

    version: int
    effective: Instant
    base_rate: int
    vram_rate: int
    org_models: dict[str, int] = field(factory=dict)
    providers: dict[str, dict[str, int]] = field(factory=dict)
    splits: Splits = Splits()
    by: str = ""
    at: Instant = Instant(0)


@frozen
class PriceLine:
    """What one owner's slots of a run cost per hour, and the platform's share of it."""

    owner: str
    rate: Rate
    fee_ppm: int = 0


@frozen
class Price:
    """What a tariff gave for a placement; fixed for that run. No lines: the run is not billed."""

    tariff: int
    lines: tuple[PriceLine, ...]


def order(tariff: Tariff) -> tuple[Instant, int]:
    """Of two lists that are effective, the one that began later holds; of two that began together, the newer version."""
    return tariff.effective, tariff.version


def in_force(tariffs: Iterable[Tariff], at: Instant) -> Tariff | None:
    return max((each for each in tariffs if each.effective <= at), key=order, default=None)


class Tariffs(Protocol):
    """Raises Unavailable when the store does not answer."""

    def in_force(self, at: Instant) -> Tariff:
        """Of those whose `effective` is not after `at` the last by `order`. Raises NotFound."""
        ...

    def history(self) -> tuple[Tariff, ...]:
        """All versions, oldest first."""
        ...

    def publish(self, tariff: Tariff) -> Tariff:
        """Add version `tariff.version`, which must be the newest plus one; raises Conflict otherwise."""
        ...
