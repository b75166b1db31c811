"""What an ask would cost and hold, and whether any machine could ever take it."""

from __future__ import annotations

from attrs import frozen

from core.house import House
from core.inventory import Fleet
from core.misfits import misfit
from core.owners import SELF_HOST, Pool
from core.pricing import dearest
from core.pricing import hold as hold_for
from ports.units import Credits, Instant, Rate
from ports.workloads import Ask


@frozen
class Quote:
    """rate: of the dearest pool that the ask allows. hold: for the preflight time. billed: False: both are 0."""

    rate: Rate
    hold: Credits
    billed: bool


def quote(house: House, ask: Ask, wanted: tuple[Pool, ...], fleet: Fleet, now: Instant) -> Quote:
    if not house.terms.credits_enabled or ask.owner == SELF_HOST:
        return Quote(Rate(0), Credits(0), False)
    rate = dearest(ask, wanted, fleet.capacity().view, house.tariffs.in_force(now))
    return Quote(rate, hold_for(rate, house.terms.preflight), True)


def check_fits(fleet: Fleet, ask: Ask, wanted: tuple[Pool, ...]) -> None:
    """Raise NeverFits if no GPU of the fleet could ever hold the ask. A fleet without GPUs of which it is known whose they are
    refuses nothing: nodes may join."""
    known = [node for node in fleet.nodes if node.gpus and node.record.status.owner]
    if not known:
        return
    if fleet.capacity().ledger.largest(ask, wanted) < ask.mib:
        raise misfit(fleet, ask, wanted)
