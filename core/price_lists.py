"""Changing the price list: the next version, published by somebody, effective from now or later, never from before.

A change is made to the list that will be in force when it begins, and its author says which version he has read. What runs
keeps its price; what is placed from the instant on takes the new one. What is announced for a later day stays announced, and
what a change alters before that day is carried over into it, by a further version for that day, wherever the announcement
itself says nothing else. Versions are never changed, so their history is the audit: who, when, from, to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeVar

from attrs import evolve, frozen

from core.house import House
from ports.errors import Conflict, Invalid, Outdated
from ports.months import moment
from ports.tariffs import PPM, Splits, Tariff, in_force, order
from ports.units import Credits, Instant, Span

T = TypeVar("T")
HIGHEST = Credits(1_000_000 * 1_000_000)  # a rate per hour: above it is a slip of the keyboard
FURTHEST = Span.of(hours=24 * 366 * 5)
FURTHEST_OF_A_PROVIDER = Span.of(hours=24 * 31)
MOST_ANNOUNCED = 12  # days to come for which one and the same has announced something: each change is carried into all of them
MOST_OF_A_PROVIDER = 2
_DAY = Span.of(hours=24)
_LEAD = Span.of(minutes=1)  # so far may the clock of another gateway be ahead of ours


def publish(
    house: House,
    who: str,
    version: int,
    change: Callable[[Tariff], Tariff],
    effective: Instant | None,
    furthest: Span = FURTHEST,
    most: int = MOST_ANNOUNCED,
) -> Tariff:
    """version: that its author has read. effective: None is now. furthest: how far ahead it may lie. most: for how many days to
    come he may announce something. Gives the list as it is from
    then on. Raises Outdated if there is a newer one or another one publishes at the same moment, Invalid for an instant that
    can't be, Unavailable.

    What is carried over is written first, the last day first: whoever dies between has announced a part, undone nothing, and
    his change holds from some later day on.
    """
    history, now = house.tariffs.history(), house.clock.now()
    newest = history[-1].version
    if newest != version:
        raise _outdated(newest)
    begins = _begin(effective, history, now, furthest)
    _check_room(history, who, begins, now, most)
    lists = _changed(history, change, begins)
    for number, each in enumerate(reversed(lists), newest + 1):
        try:
            made = house.tariffs.publish(evolve(each, version=number, by=who, at=now))
        except Conflict:
            raise _outdated(number) from None
    return made


def _outdated(newest: int) -> Outdated:
    return Outdated(f"The price list is at version {newest} now.", "If-Match", "Read it again, and change what you find.", newest)


def _begin(effective: Instant | None, history: tuple[Tariff, ...], now: Instant, furthest: Span) -> Instant:
    if effective is None:
        return max((each.effective for each in history if now < each.effective <= now + _LEAD), default=now)
    if effective < now:
        raise Invalid("effective lies in the past.", "effective", "Give a time to come, or leave it out: the change then holds at once.")
    if effective > now + furthest:
        raise Invalid(f"effective lies more than {furthest.ms // _DAY.ms} days ahead.", "effective", "Give a nearer time.")
    return effective


def _check_room(history: tuple[Tariff, ...], who: str, begins: Instant, now: Instant, most: int) -> None:
    announced = {each.effective: each.by for each in reversed(history) if each.effective > now + _LEAD}  # the first for its day counts
    mine = {at for at, by in announced.items() if by == who}
    if begins > now + _LEAD and begins not in announced and len(mine) >= most:
        raise Invalid(
            f"You have announced changes for {len(mine)} times to come.",
            "effective",
            f"Give one of those: {_times(mine)}, or leave it out.",
        )


def _times(instants: set[Instant]) -> str:
    return ", ".join(moment(each).isoformat(timespec="seconds").replace("+00:00", "Z") for each in sorted(instants)[:3])


def _changed(history: tuple[Tariff, ...], change: Callable[[Tariff], Tariff], begins: Instant) -> list[Tariff]:
    """The list from `begins` on, and those of later days that are other than announced by it, in the order of their days."""
    was = _held(history, begins)
    lists = [evolve(change(was), effective=begins)]
    now = lists[0]
    for day in sorted({each.effective for each in history if each.effective > begins}):
        announced = _held(history, day)
        carried = _merged(was, now, announced)
        if carried != announced:
            lists.append(carried)
        was, now = announced, carried
    return lists


def _held(history: tuple[Tariff, ...], at: Instant) -> Tariff:
    return in_force(history, at) or min(history, key=order)


Leaves = dict[tuple[str, ...], int]


def _merged(was: Tariff, now: Tariff, announced: Tariff) -> Tariff:
    """The announced list, with what changed from `was` to `now` wherever it says the same as `was`."""
    before, after, wanted = _leaves(was), _leaves(now), _leaves(announced)
    merged = {name: value for name, value in wanted.items() if value != before.get(name)}
    taken_away = before.keys() - wanted.keys()
    merged |= {name: value for name, value in after.items() if name not in merged and name not in taken_away}
    return _tariff(announced, merged)


def _leaves(tariff: Tariff) -> Leaves:
    """Every number of a list by where it stands."""
    splits = tariff.splits
    found: Leaves = {("base",): tariff.base_rate, ("vram",): tariff.vram_rate}
    found |= {("rentals",): splits.rental_fee_ppm, ("calls",): splits.call_fee_ppm}
    found |= {("org", model): rate for model, rate in tariff.org_models.items()}
    return found | {("of", owner, model): rate for owner, models in tariff.providers.items() for model, rate in models.items()}


def _tariff(of: Tariff, leaves: Leaves) -> Tariff:
    providers: dict[str, dict[str, int]] = {}
    for name, rate in leaves.items():
        if name[0] == "of":
            providers.setdefault(name[1], {})[name[2]] = rate
    models = {name[1]: rate for name, rate in leaves.items() if name[0] == "org"}
    splits = Splits(leaves["rentals",], leaves["calls",])
    return evolve(of, base_rate=leaves["base",], vram_rate=leaves["vram",], org_models=models, providers=providers, splits=splits)


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
    """A version in which some part of the list is another than in the one that would have held from its day on."""

    tariff: Tariff
    before: Tariff


def steps(history: tuple[Tariff, ...], part: Callable[[Tariff], T]) -> Iterator[Step]:
    """Oldest version first."""
    known: list[Tariff] = []
    for tariff in history:
        at = bisect_right(known, order(tariff), key=order)
        if known and part(before := known[max(0, at - 1)]) != part(tariff):
            yield Step(tariff, before)
        known.insert(at, tariff)


def last(history: tuple[Tariff, ...]) -> Tariff:
    """The list that holds in the end, if nothing else is published."""
    return max(history, key=order)
