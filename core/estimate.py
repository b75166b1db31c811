"""A dry run of submit: what it would cost and hold, and where it would go now. Nothing is written."""

from __future__ import annotations

from attrs import frozen

from core.callers import Caller
from core.house import House
from core.inventory import Fleet
from core.ledger import NoRoom
from core.owners import pools
from core.pricing import price
from core.pricing import rate as rate_of
from core.quotes import check_fits, quote
from core.shortage import shortage
from ports.credits import user_account
from ports.units import Credits, Mib, Rate
from ports.workloads import Ask, Placement, RunId


@frozen
class Estimate:
    """rate, hold: of the dearest pool allowed. placed_rate: where it would go now. reason, short_by: why nowhere.

    balance: of the account. available: what of it no hold has set aside.

    It tells what an idle queue would do: jobs that wait already come first.
    """

    rate: Rate
    hold: Credits
    balance: Credits
    available: Credits
    affordable: bool
    placement: Placement | None
    placed_rate: Rate | None
    reason: str
    short_by: Mib
    pools: tuple[str, ...]


def estimate(house: House, caller: Caller, ask: Ask, fleet: Fleet) -> Estimate:
    """Raises Refused as submit would, except for want of money: that is an answer here."""
    wanted = pools(caller.user, caller.plan, ask.owner)
    check_fits(fleet, ask, wanted)
    now = house.clock.now()
    given = quote(house, ask, wanted, fleet, now)
    account = house.credits.account(user_account(caller.user)) if house.terms.credits_enabled else None
    balance = account.balance if account is not None else Credits(0)
    available = balance - account.held if account is not None else Credits(0)
    found = fleet.ledger().reserve(RunId("estimate", 1), ask, wanted)
    names = tuple(pool.owners for pool in wanted)
    affordable = available >= given.hold or not given.billed
    if isinstance(found, NoRoom):
        reason = shortage(fleet, ask, wanted) or found.reason
        return Estimate(given.rate, given.hold, balance, available, affordable, None, None, reason, found.short_by, names)
    placed = Rate(0)
    if given.billed:
        placed = rate_of(price(found, fleet, house.tariffs.in_force(now), caller.user))
    return Estimate(given.rate, given.hold, balance, available, affordable, found, placed, "", Mib(0), names)
