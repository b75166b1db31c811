"""Changing the price list: the next version, published by somebody, effective from now or later, never from before.

A change is made to the newest version and says which one that is. What runs keeps its price; what is placed from the
instant on takes the new one. Versions are never changed, so their history is the audit: who, when, from, to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from attrs import evolve, frozen

from core.house import House
from ports.errors import Conflict, Invalid, Outdated
from ports.tariffs import PPM, Tariff
from ports.units import Credits, Instant, Span

T = TypeVar("T")
HIGHEST = Credits(1_000_000 * 1_000_000)  # a rate per hour: above it is a slip of the keyboard
FURTHEST = Span.of(hours=24 * 366 * 5)
FURTHEST_OF_A_PROVIDER = Span.of(hours=24 * 31)  # whatever is announced keeps every other change from beginning sooner
_DAY = Span.of(hours=24)
_LEAD = Span.of(minutes=1)  # so far may the clock of another gateway be ahead of ours


def publish(
    house: House, who: str, version: int, change: Callable[[Tariff], Tariff], effective: Instant | None, furthest: Span = FURTHEST
) -> Tariff:
    """version: that is changed. effective: None is now. furthest: how far ahead it may lie. Raises Outdated if there is a newer one
    or another one publishes at the same moment, Invalid for an instant that can't be, Unavailable."""
    newest, now = house.tariffs.history()[-1], house.clock.now()
    if newest.version != version:
        raise _outdated(newest.version)
    begins = _begin(effective, newest.effective, now, furthest)
    changed = evolve(change(newest), version=newest.version + 1, effective=begins, by=who, at=now)
    try:
        return house.tariffs.publish(changed)
    except Conflict:
        raise _outdated(newest.version + 1) from None


def _outdated(newest: int) -> Outdated:
    return Outdated(f"The price list is at version {newest} now.", "If-Match", "Read it again, and change what you find.", newest)


def _begin(effective: Instant | None, before: Instant, now: Instant, furthest: Span) -> Instant:
    if effective is None:
        if before > now + _LEAD:
            raise _scheduled(before)
        return max(now, before)
    if effective < now:
        raise Invalid("effective lies in the past.", "effective", "Give a time to come, or leave it out: the change then holds at once.")
    if effective > now + furthest:
        raise Invalid(f"effective lies more than {furthest.ms // _DAY.ms} days ahead.", "effective", "Give a nearer time.")
    if effective < before:
        raise _scheduled(before)
    return effective


def _scheduled(before: Instant) -> Invalid:
    return Invalid(
        "A change that is published already begins later than this one, and would undo it.",
        "effective",
        f"Give that time or a later one: {before.ms} ms since 1970, as `effective` of the newest version says.",
    )


def rate(text: str, name: str) -> int:
    """Micro-credits per hour from credits per hour. Raises Invalid, naming the field, for what is no price."""
    given = Credits.parse(text, name)
    if not 0 <= given.micro <= HIGHEST.micro:
        raise Invalid(f"{name} is {text:.60}.", name, f"Give 0 to {HIGHEST.micro // 1_000_000} credits per hour.", text)
    return given.micro


def share(text: str, name: str) -> int:
    """Parts per million from a share such as 0.1. Raises Invalid."""
    given = Credits.parse(text, name).micro  # both have six decimal places
    if not 0 <= given <= PPM:
        raise Invalid(f"{name} is {text:.60}.", name, "Give a share from 0 to 1 with at most six decimal places.", text)
    return given


def fee(platform: str, payee: str, name: str) -> int:
    """The platform's share of two that must add up to 1, in ppm. Raises Invalid."""
    found, rest = share(platform, f"{name}.platform"), share(payee, f"{name}.payee")
    if found + rest != PPM:
        raise Invalid(f"{name} does not add up to 1.", name, "Give two shares whose sum is 1.", f"{platform} + {payee}"[:200])
    return found


@frozen
class Step:
    """A version in which some part of the list is another than before."""

    tariff: Tariff
    before: Tariff


def steps(history: tuple[Tariff, ...], part: Callable[[Tariff], T]) -> Iterator[Step]:
    """Oldest first."""
    for before, tariff in itertools.pairwise(history):
        if part(before) != part(tariff):
            yield Step(tariff, before)
