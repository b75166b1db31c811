"""A month of one account: with what it began, what came and went, with what it ended. Months are those of UTC."""

from __future__ import annotations

from attrs import frozen

from ports.credits import BEGINNING, CreditService
from ports.months import Month
from ports.units import Credits


@frozen
class Statement:
    """kinds: the sum of each kind of posting. opening + kinds = closing, to the micro-credit."""

    account: str
    month: Month
    opening: Credits
    kinds: dict[str, Credits]

    @property
    def closing(self) -> Credits:
        return sum(self.kinds.values(), start=self.opening)


def statement(credits: CreditService, account: str, month: Month) -> Statement:
    """Of a month that has not ended: as it is so far. Raises Unavailable."""
    before = credits.turnover(account, BEGINNING, month.begin)
    opening = sum(before.values(), start=Credits(0))
    return Statement(account, month, opening, credits.turnover(account, month.begin, month.end))
