"""A dry run of submit: what it would cost and hold, and where it would go now. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from core.callers import Caller
from core.house import House
from core.inventory import Fleet
from core.ledger import NoRoom
from core.owners import Pool, pools
from core.pricing import price
from core.pricing import rate as rate_of
from core.queue import Closed, Queue, Turn
from core.quotes import check_fits, quote
from core.turns import reserve_in_turn
from ports.credits import user_account
from ports.units import Credits, Instant, Mib, Rate
from ports.workloads import Ask, BlobRef, Job, JobSpec, Placement, RunId


@frozen
class Estimate:
    """rate, hold: of the dearest pool allowed. placed_rate: where it would go now. reason, short_by: why nowhere.

    Jobs that wait already come first, as they would in the queue.
    """

    rate: Rate
    hold: Credits
    balance: Credits
    affordable: bool
    placement: Placement | None
    placed_rate: Rate | None
    reason: str
    short_by: Mib
    pools: tuple[str, ...]


def estimate(house: House, caller: Caller, ask: Ask, fleet: Fleet, waiting: Iterable[Job] = ()) -> Estimate:
    """Raises Refused as submit would, except for want of money: that is an answer here. waiting: funded jobs in the queue."""
    wanted = pools(caller.user, caller.plan, ask.owner)
    check_fits(fleet, ask, wanted)
    now = house.clock.now()
    given = quote(house, ask, wanted, fleet, now)
    account = house.credits.account(user_account(caller.user)) if given.billed else None
    balance = account.balance - account.held if account is not None else Credits(0)
    found = _its_turn(caller, ask, wanted, fleet, waiting, now)
    names = tuple(pool.owners for pool in wanted)
    affordable = balance >= given.hold or not given.billed
    if isinstance(found, NoRoom):
        return Estimate(given.rate, given.hold, balance, affordable, None, None, found.reason, found.short_by, names)
    placed = Rate(0)
    if given.billed:
        placed = rate_of(price(found, fleet, house.tariffs.in_force(now), caller.user))
    return Estimate(given.rate, given.hold, balance, affordable, found, placed, "", Mib(0), names)


def _its_turn(caller: Caller, ask: Ask, wanted: tuple[Pool, ...], fleet: Fleet, waiting: Iterable[Job], now: Instant) -> Placement | NoRoom:
    """Where the next round would place it, behind everybody who waits."""
    ledger, classes, queue = fleet.ledger(), tuple(fleet.capacity().view.classes), Queue()
    nothing = BlobRef("", 0)
    mine = Job("estimate", "", now, JobSpec(caller.user, caller.plan, "", ask, nothing, nothing))
    last = now.ms
    for job in waiting:
        queue.put(job)
        last = max(last, job.created_at.ms)
    queue.put(evolve(mine, created_at=Instant(last + 1)))
    answer: list[Placement | NoRoom] = []

    def place(job: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        found = reserve_in_turn(ledger, RunId(job.id, job.status.attempt + 1), job.spec.ask, pools, closed, lambda: classes)
        if job.id == mine.id:
            room = ledger.reserve(RunId(mine.id, 1), ask, wanted) if found is None else found
            behind = NoRoom(Mib(0), tuple(str(pool) for pool in wanted), "Earlier jobs wait for the same GPUs.")
            answer.append(room if found is not None or isinstance(room, NoRoom) else behind)
        if found is None:
            return Turn.WAITS if fleet.capacity().ledger.largest(job.spec.ask, pools) >= job.spec.ask.mib else Turn.ASIDE
        return Turn.PLACED

    queue.round(place, classes)
    return answer[0] if answer else NoRoom(Mib(0), tuple(str(pool) for pool in wanted), "Earlier jobs wait for the same GPUs.")
