"""Price lists: what is announced stays, what is changed before stays too, and nothing ever changes in the past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from core.house import House, Terms
from core.price_lists import MOST_ANNOUNCED, last, publish, steps
from ports.errors import Conflict, Invalid, Outdated
from ports.tariffs import Splits, Tariff
from ports.units import Instant, Span
from tests.memory.blobs import MemoryBlobs
from tests.memory.clock import ManualClock
from tests.memory.tariffs import MemoryTariffs

DAY = 24 * 3_600_000
Change = Callable[[Tariff], Tariff]


class Office:
    """Whoever publishes, with a clock."""

    def __init__(self) -> None:
        self.clock, self.tariffs = ManualClock(), MemoryTariffs(Tariff(1, Instant(0), 0, 1_000_000, {"T4": 1}))
        unused = cast(Any, None)
        self.house = House(unused, unused, unused, self.tariffs, MemoryBlobs(self.clock), self.clock, unused, Terms(), unused)

    def day(self, number: int) -> Instant:
        return self.clock.now() + Span(number * DAY)

    def publish(self, change: Change, day: int | None = None, who: str = "root") -> Tariff:
        version = self.tariffs.history()[-1].version
        return publish(self.house, who, version, change, None if day is None else self.day(day))

    def on(self, day: int) -> Tariff:
        return self.tariffs.in_force(self.day(day))


def base(rate: int) -> Change:
    return lambda tariff: evolve(tariff, base_rate=rate)


def vram(rate: int) -> Change:
    return lambda tariff: evolve(tariff, vram_rate=rate)


def models(**rates: int) -> Change:
    return lambda tariff: evolve(tariff, org_models=rates)


def of(owner: str, **rates: int) -> Change:
    return lambda tariff: evolve(tariff, providers=tariff.providers | {owner: rates})


def test_a_change_before_an_announced_one_holds_at_once_and_lasts() -> None:
    """The announced list was made before it, and would undo it on its day."""
    office = Office()
    office.publish(of("provider:acme", L4=5), 10)
    office.publish(vram(7), 20)
    office.publish(base(3))
    assert [(3, {}, 1_000_000), (3, {"provider:acme": {"L4": 5}}, 1_000_000), (3, {"provider:acme": {"L4": 5}}, 7)] == [
        (found.base_rate, found.providers, found.vram_rate) for found in map(office.on, (0, 10, 20))
    ]


def test_what_is_announced_stays_announced() -> None:
    """Of one and the same rate, what was announced for its day holds from its day on."""
    office = Office()
    office.publish(base(9), 10)
    office.publish(base(3), 5)
    assert [0, 3, 9] == [office.on(day).base_rate for day in (4, 5, 10)]
    office.publish(base(4), 10)
    assert [3, 4] == [office.on(day).base_rate for day in (9, 10)]


def test_a_rate_that_is_taken_away_is_away_in_what_comes_later_too_unless_that_says_otherwise() -> None:
    """A model without a rate costs what the formula says; that is a price like any other."""
    office = Office()
    office.publish(base(1), 10)
    office.publish(models(T4=8), 20)
    office.publish(models(A100=5))
    assert [{"A100": 5}, {"A100": 5}, {"A100": 5, "T4": 8}] == [office.on(day).org_models for day in (0, 10, 20)]
    office = Office()
    office.publish(models(), 10)
    office.publish(models(T4=1, A100=5))
    assert {"A100": 5} == office.on(10).org_models


def test_the_past_and_what_lies_too_far_ahead_are_refused() -> None:
    """Nobody pays another price than he was told."""
    office = Office()
    for day in (-1, 366 * 5 + 1):
        with pytest.raises(Invalid, match="effective"):
            office.publish(base(1), day)
    assert 1 == len(office.tariffs.history())


def test_a_change_right_after_one_of_a_gateway_whose_clock_is_ahead_follows_it() -> None:
    """Two admins change one rate one after the other: the second one's stays."""
    office = Office()
    office.clock.advance(Span(30_000))
    office.publish(base(5))
    office.clock.advance(Span(-29_000))
    office.publish(base(6))
    assert 6 == last(office.tariffs.history()).base_rate == office.on(1).base_rate


def test_nobody_announces_for_more_than_a_dozen_days() -> None:
    """Every change is carried into all of them."""
    office = Office()
    for day in range(1, MOST_ANNOUNCED + 1):
        office.publish(base(day), day)
    with pytest.raises(Invalid, match="12 times to come"):
        office.publish(base(99), 40)
    office.publish(base(99), 12)
    office.publish(vram(1), 40, who="another")
    office.publish(base(98))
    assert [98, 1, 11, 99] == [office.on(day).base_rate for day in (0, 1, 11, 12)]


def test_whoever_loses_the_race_or_dies_between_has_undone_nothing() -> None:
    """What is carried over is written before the change itself."""
    office = Office()
    office.publish(of("provider:acme", L4=5), 10)

    class Dying(MemoryTariffs):
        def publish(self, tariff: Tariff) -> Tariff:
            if tariff.effective == office.clock.now():
                raise Conflict("another one was faster")
            return office.tariffs.publish(tariff)

        def history(self) -> tuple[Tariff, ...]:
            return office.tariffs.history()

    with pytest.raises(Outdated):
        publish(evolve(office.house, tariffs=Dying()), "root", 2, base(3), None)
    assert [(0, {}), (3, {"provider:acme": {"L4": 5}})] == [(found.base_rate, found.providers) for found in map(office.on, (0, 10))]


PARTS: tuple[Callable[[int], Change], ...] = (
    base, vram, lambda n: models(T4=n), lambda n: models(A100=n), lambda n: of("provider:acme", L4=n), lambda n: of("provider:zoe", L4=n),
    lambda n: lambda tariff: evolve(tariff, splits=Splits(n, tariff.splits.call_fee_ppm)),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(range(len(PARTS))), st.integers(0, 5), st.integers(0, 9)), max_size=12))
def test_each_part_is_on_each_day_what_was_published_last_for_the_latest_day_up_to_it(changes: list[tuple[int, int, int]]) -> None:
    """However changes of different parts follow one another: each part has a history of its own, as if it were alone."""
    office = Office()
    alone = [Office() for _ in PARTS]
    for part, day, rate in changes:
        office.publish(PARTS[part](rate), day)
        for each in (part, 5 - part) if part in (2, 3) else (part,):  # the two write the same models
            alone[each].publish(PARTS[part](rate), day)
    shown: tuple[Callable[[Tariff], Any], ...] = (
        lambda t: t.base_rate, lambda t: t.vram_rate, lambda t: t.org_models, lambda t: t.org_models,
        lambda t: t.providers.get("provider:acme"), lambda t: t.providers.get("provider:zoe"), lambda t: t.splits,
    )  # fmt: skip
    for day in range(7):
        for part, show in enumerate(shown):
            assert show(alone[part].on(day)) == show(office.on(day)), (part, day)
    history = office.tariffs.history()
    assert all(step.before.version < step.tariff.version for step in steps(history, lambda tariff: tariff.base_rate))
    assert [each.version for each in history] == list(range(1, len(history) + 1))
