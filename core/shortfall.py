"""Why credits do not suffice, in words. A month's budget that is used up is no want of money: something else is to be done about it."""

from __future__ import annotations

from ports.credits import Account
from ports.errors import CannotAfford, OverBudget
from ports.months import ZONE, Month
from ports.units import Credits, Instant

RAISE = "Its user may raise it (PUT /v1/account/budget)"


def anew(month: Month) -> str:
    """When a budget of that month is over."""
    return f"A new one begins on {month.next}-01 at 00:00 {ZONE}."


def shortfall(account: Account | None, need: Credits, have: Credits, now: Instant) -> CannotAfford:
    """have: what is available. account: None if it can't be told what bounds that."""
    if account is None or account.cap is None or account.cap - account.spent >= account.balance:
        message = f"This needs {need} credits set aside, and {have} are available."
        remedy = "Top up, ask for less VRAM, or wait until running jobs have given their holds back."
        return CannotAfford(message, "", remedy, need.micro, have.micro)
    month = Month.of(now)
    message = (
        f"This needs {need} credits set aside, and {have} are left of the budget of {account.cap} for {month}: "
        f"{account.spent} are spent, {account.held} are set aside for unfinished jobs."
    )
    enough = account.balance - account.held >= need
    balance = f"The balance of {account.balance} {'is enough' if enough else 'would not be enough either'}."
    remedy = f"{RAISE}, or wait until running jobs have given their holds back. {anew(month)} {balance}"
    return OverBudget(message, "", remedy, need.micro, have.micro, str(month), account.cap.micro, account.spent.micro, month.end.ms)
