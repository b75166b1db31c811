"""What a job would cost, and whether it would run now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """The gateway's dry run. Money in credits.

    rate_per_hour: of the dearest hardware that the ask allows; placed_rate_per_hour: of the place it would get now.
    hold: set aside at submit. balance: of the account; available: what of it no hold has set aside, None if the gateway
    does not say; unaffordable: why that does not cover the hold. placement: that place. reason: why there is none now.
    short_by_mib: the VRAM missing for one.
    """

    rate_per_hour: Decimal
    hold: Decimal
    balance: Decimal | None
    available: Decimal | None
    affordable: bool
    placeable_now: bool
    placement: tuple[Mapping[str, Any], ...]
    placed_rate_per_hour: Decimal | None
    reason: str
    short_by_mib: int
    pools: tuple[str, ...]
    unaffordable: str
    raw: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def read(facts: Mapping[str, Any]) -> Estimate:
        """From the gateway's answer."""
        return Estimate(
            rate_per_hour=Decimal(facts["rate_per_hour"]),
            hold=Decimal(facts["hold"]),
            balance=_money(facts.get("balance")),
            available=_money(facts.get("available")),
            affordable=bool(facts.get("affordable", True)),
            placeable_now=bool(facts["placeable_now"]),
            placement=tuple(facts.get("placement") or ()),
            placed_rate_per_hour=_money(facts.get("placed_rate_per_hour")),
            reason=facts.get("reason") or "",
            short_by_mib=int(facts.get("short_by_mib") or 0),
            pools=tuple(facts.get("pools") or ()),
            unaffordable=facts.get("unaffordable") or "",
            raw=facts,
        )


def _money(text: Any) -> Decimal | None:
    return Decimal(text) if text else None
