"""What a placement costs per hour, by the tariff in force when it was made.

Per slot: the owner's own rate of that GPU model times the share of the GPU that is booked; without one, the
formula `GB x vram_rate`. `base_rate` is added once per run if any of its slots is priced by the formula; when those
slots belong to several owners, each earns it in proportion to his MiB among them. All of it is exact: nothing is
rounded here. A rate of 0 that the tariff gives is 0, not "none given". Nobody rents from himself: slots on the
user's own hardware (all that `self_host` can get) make no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from core.fleet import GpuClass, Hardware, LedgerView
from core.owners import SELF_HOST, Pool, is_provider, provider
from ports.nodes import ORG
from ports.tariffs import Price, PriceLine, Tariff
from ports.units import MIB_PER_GB, Credits, Mib, Rate, Span
from ports.workloads import Ask, Placement

NOTHING = Rate(0)


def price(placement: Placement, hardware: Hardware, tariff: Tariff, user: str) -> Price:
    """The price of a run on that placement: one line per owner other than the user, by owner. Raises NotFound."""
    own: dict[str, Fraction] = {}
    by_formula: dict[str, int] = {}
    for slot in placement:
        owner, gpu = hardware.owner(slot.node), hardware.gpu(slot.node, slot.gpu)
        if owner == provider(user):
            continue
        whole = _own_rate(owner, gpu.model, tariff)
        if whole is None:
            by_formula[owner] = by_formula.get(owner, 0) + slot.mib.n
        else:
            own[owner] = own.get(owner, Fraction(0)) + Fraction(whole * slot.mib.n, gpu.total.n)
    formula_mib = sum(by_formula.values())
    return Price(
        tariff.version,
        tuple(
            PriceLine(
                owner,
                Rate.of(own.get(owner, Fraction(0)) + _formula(by_formula.get(owner, 0), formula_mib, tariff)),
                tariff.splits.rental_fee_ppm,
            )
            for owner in sorted(own.keys() | by_formula.keys())
        ),
    )


def rate(priced: Price) -> Rate:
    """All lines together: micro-credits per hour, exactly."""
    return Rate.of(sum((line.rate.fraction for line in priced.lines), Fraction(0)))


def dearest(ask: Ask, pools: Sequence[Pool], fleet: LedgerView, tariff: Tariff) -> Rate:
    """The most that any placement of that ask in one of those pools could cost per hour.

    Over the kinds of GPU that the fleet has now and that could hold a share of the ask, drained or full as they may
    be; if there is none (an empty fleet), org's formula. `self_host` costs nothing.
    """
    if ask.owner == SELF_HOST:
        return NOTHING
    slots = ask.gpus * ask.workers
    found = [most for pool in pools if (most := _most(slots, ask, _usable(ask, pool, fleet.classes), tariff)) is not None]
    return Rate.of(max(found, default=_formula(ask.mib.n * slots, ask.mib.n * slots, tariff)))


def hold(dear: Rate, preflight: Span) -> Credits:
    """What is set aside at submit: rounded up, so never less than that time can cost."""
    return dear.prorate_ceil(preflight)


def listed_as(owner: str) -> tuple[str, ...]:
    """Under what a price list may hold a provider's rates: the owner, or his id alone, unless it reads as another owner."""
    name = owner.partition(":")[2]
    return (owner,) if is_provider(name) else (owner, name)


def _own_rate(owner: str, model: str, tariff: Tariff) -> int | None:
    """Micro-credits per hour of a whole GPU of that model, where the tariff names them for that owner."""
    if owner == ORG:
        return tariff.org_models.get(model)
    return next((tariff.providers[name].get(model) for name in listed_as(owner) if name in tariff.providers), None)


def _formula(mib: int, of_mib: int, tariff: Tariff) -> Fraction:
    """The formula for `mib` out of the `of_mib` of a run that are priced by it: its GB, and its share of base_rate."""
    return Fraction(mib * tariff.vram_rate, MIB_PER_GB) + (Fraction(tariff.base_rate * mib, of_mib) if mib else 0)


def _usable(ask: Ask, pool: Pool, classes: Iterable[GpuClass]) -> Iterator[GpuClass]:
    for each in classes:
        named = (ask.model is None or each.model == ask.model) and (ask.vendor is None or each.vendor == ask.vendor)
        if named and pool.has(each.owner) and each.total >= ask.mib:
            yield each


def _most(slots: int, ask: Ask, classes: Iterable[GpuClass], tariff: Tariff) -> Fraction | None:
    """The dearest mix of `slots` slots over those kinds: without a slot priced by the formula, or with one and base_rate."""
    own: list[Fraction] = []
    by_formula: list[Fraction] = []
    for each in classes:
        booked: Mib = each.total if ask.exclusive else ask.mib
        whole = _own_rate(each.owner, each.model, tariff)
        if whole is None:
            by_formula.append(Fraction(booked.n * tariff.vram_rate, MIB_PER_GB))
        else:
            own.append(Fraction(whole * booked.n, each.total.n))
    mixes = [slots * max(own)] if own else []
    if by_formula:
        mixes.append(tariff.base_rate + max(by_formula) + (slots - 1) * max(own + by_formula))
    return max(mixes, default=None)
