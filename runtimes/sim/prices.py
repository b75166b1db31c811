"""The tariff of a simulation, from what the command line says. Credits per hour; without a flag, what a gateway without settings takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.owners import check_owner, is_provider
from core.simulation.trace import Machine
from ports.errors import Invalid
from ports.nodes import ORG
from ports.tariffs import PPM, Splits, Tariff
from ports.units import Credits, Instant
from runtimes.sim.openb import MIB

GRAMMAR = 'Write MODEL=CREDITS for every owner, or OWNER:MODEL=CREDITS for one, as in "A10=0.9" or "provider:acme:A10=0.75".'


def tariff(prices: Sequence[str], base_rate: str, vram_rate: str, fee: str, machines: Iterable[Machine]) -> Tariff:
    """prices: of a whole GPU. fee: the platform's share of rentals, in per cent. Raises Invalid."""
    fleet = tuple(machines)
    owners, known = sorted({each.owner for each in fleet} | {ORG}), MIB.keys() | {each.model for each in fleet}
    rates: dict[str, dict[str, int]] = {owner: {} for owner in owners}
    for text in sorted(prices, key=lambda each: ":" in each):  # what is said of one owner holds against what is said of all
        named, equals, amount = text.partition("=")
        owner, colon, model = named.rpartition(":")
        if not equals or not model or (colon and not owner):
            raise Invalid(f"--price {text!r:.80} can't be read.", "--price", GRAMMAR, text)
        if model not in known:
            raise Invalid(f"--price {text!r:.80}: no node has that model.", "--price", f"Name one of {', '.join(sorted(known))}.", text)
        for each in [check_owner(owner, "--price")] if owner else owners:
            rates.setdefault(each, {})[model] = _credits(amount, "--price")
    theirs = {owner: models for owner, models in rates.items() if is_provider(owner) and models}
    return Tariff(
        1, Instant(0), _credits(base_rate, "--base-rate"), _credits(vram_rate, "--vram-rate"), rates[ORG], theirs, Splits(_ppm(fee))
    )


def _credits(text: str, name: str) -> int:
    amount = Credits.parse(text, name).micro
    if amount < 0:
        raise Invalid(f"{name} must not be negative, not {text!r:.40}.", name, "Give credits per hour, from 0.", text)
    return amount


def _ppm(text: str) -> int:
    share = Credits.parse(text, "--fee").micro // 100
    if not 0 <= share <= PPM:
        raise Invalid(f"--fee must be from 0 to 100 per cent, not {text!r:.40}.", "--fee", "Give per cent, as in 10.", text)
    return share
