"""Bills computed once more, from the words of docs/guides/billing.md alone: nothing of ours is imported here.

Amounts are micro-credits, rates micro-credits per hour, times milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

HOUR = 3_600_000
MILLION = 1_000_000


@dataclass(frozen=True)
class Slot:
    """owner: "org" or "provider:<id>". booked: MiB of a GPU of `whole` MiB."""

    owner: str
    model: str
    booked: int
    whole: int


@dataclass(frozen=True)
class PriceList:
    """own: per owner, his rate of a whole GPU of a model. fee: of rentals, in ppm."""

    base: int
    vram: int
    own: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    fee: int = 0


def rates(slots: Iterable[Slot], prices: PriceList, user: str) -> dict[str, Fraction]:
    """Per owner, exactly. "A user's own hardware costs him nothing." """
    found: dict[str, Fraction] = {}
    by_formula: dict[str, int] = {}
    for slot in slots:
        if slot.owner == f"provider:{user}":
            continue
        whole = prices.own.get(slot.owner, {}).get(slot.model)
        if whole is None:
            by_formula[slot.owner] = by_formula.get(slot.owner, 0) + slot.booked
            amount = Fraction(prices.vram * slot.booked, 1024)
        else:
            amount = Fraction(whole * slot.booked, slot.whole)
        found[slot.owner] = found.get(slot.owner, Fraction(0)) + amount
    for owner, mib in by_formula.items():
        found[owner] += Fraction(prices.base * mib, sum(by_formula.values()))
    return found


def postings(slots: Iterable[Slot], prices: PriceList, user: str, ran: int) -> dict[str, int]:
    """What the accounts of one run come to: who is paid, and the user, who pays. Zeros are left out."""
    found: dict[str, int] = {}
    for owner, rate in rates(slots, prices, user).items():
        cost = int(rate * ran / HOUR)  # not negative: the floor
        payee = cost * (MILLION - prices.fee) // MILLION
        for account, amount in ((owner, payee), ("platform", cost - payee), (f"user:{user}", -cost)):
            found[account] = found.get(account, 0) + amount
    return {account: amount for account, amount in found.items() if amount}


def hold(slots: Iterable[Slot], prices: PriceList, user: str, preflight: int) -> int:
    """Of the dearest placement, `slots`."""
    exact = sum(rates(slots, prices, user).values(), Fraction(0)) * preflight / HOUR
    return -int(-exact // 1)
