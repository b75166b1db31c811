"""A dry run of submit: what it would cost and hold, and where it would go now. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from core.callers import Caller
from core.house import House
from core.inventory import Fleet
from core.ledger import NoRoom
from core.owners import Pool, pools
from core.pricing import price
from core.pricing import rate as rate_of
from core.queue import Closed, Queue, Turn
from core.quotes import check_fits, quote
from core.shortage import shortage
from core.shortfall import shortfall
from core.turns import reserve_in_turn
from ports.credits import user_account
from ports.units import Credits, Instant, Mib, Rate
from ports.workloads import Ask, BlobRef, Job, JobSpec, Placement, RunId


@frozen
class Estimate:
    """rate, hold: of the dearest pool allowed. placed_rate: where it would go now. reason, short_by: why nowhere.

    balance: of the account. available: what of it no hold has set aside. unaffordable: why it is not affordable.

    Jobs that wait already come first, as they would in the queue.
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
    unaffordable: str = ""


def estimate(house: House, caller: Caller, ask: Ask, fleet: Fleet, waiting: Iterable[Job] = ()) -> Estimate:
    """Raises Refused as submit would, except for want of money: that is an answer here. waiting: funded jobs in the queue."""
    account = house.credits.account(user_account(caller.user)) if house.terms.credits_enabled else None
    caller = caller.narrowed(account.plan) if account is not None else caller
    wanted = pools(caller.user, caller.plan, ask.owner)
    check_fits(fleet, ask, wanted)
    now = house.clock.now()
    given = quote(house, ask, wanted, fleet, now)
    balance = account.balance if account is not None else Credits(0)
    available = account.available if account is not None else Credits(0)
    found = _its_turn(caller, ask, wanted, fleet, waiting, now)
    names = tuple(pool.owners for pool in wanted)
    affordable = available >= given.hold or not given.billed
    poor = "" if affordable else str(shortfall(account, given.hold, available, now))
    if isinstance(found, NoRoom):
        reason = shortage(fleet, ask, wanted) or found.reason
        return Estimate(given.rate, given.hold, balance, available, affordable, None, None, reason, found.short_by, names, poor)
    placed = Rate(0)
    if given.billed:
        placed = rate_of(price(found, fleet, house.tariffs.in_force(now), caller.user))
    return Estimate(given.rate, given.hold, balance, available, affordable, found, placed, "", Mib(0), names, poor)


def _its_turn(caller: Caller, ask: Ask, wanted: tuple[Pool, ...], fleet: Fleet, waiting: Iterable[Job], now: Instant) -> Placement | NoRoom:
    """Where the next round would place it, behind everybody who waits."""
    ledger, classes, queue = fleet.ledger(), tuple(fleet.capacity().view.classes), Queue()
    nothing = BlobRef("", 0)
    last = now.ms
    for job in waiting:
        queue.put(job)
        last = max(last, job.created_at.ms)
    mine = Job("estimate", "", Instant(last + 1), JobSpec(caller.user, caller.plan, "", ask, nothing, nothing))
    queue.put(mine)
    answer: Placement | NoRoom = NoRoom(Mib(0), tuple(str(pool) for pool in wanted), "Earlier jobs wait for the same GPUs.")

    def place(job: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        nonlocal answer
        run = RunId(job.id, job.status.attempt + 1)
        found = reserve_in_turn(ledger, run, job.spec.ask, pools, closed, lambda: classes)
        if job.id == mine.id:
            room = found or ledger.reserve(run, ask, wanted)
            answer = room if found is not None or isinstance(room, NoRoom) else answer
        if found is not None:
            return Turn.PLACED
        return Turn.WAITS if fleet.capacity().ledger.largest(job.spec.ask, pools) >= job.spec.ask.mib else Turn.ASIDE

    queue.round(place, classes)
    return answer
