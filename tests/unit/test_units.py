"""Units: they refuse to mix, what a person types becomes exact or is refused, and a cost is rounded once."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ports.errors import Invalid
from ports.units import MAX_MIB, MICRO, MS_PER_HOUR, Credits, Instant, Mib, Rate, Span

UNITS: tuple[Callable[[int], object], ...] = (Mib, Credits, Span, Instant)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("combine", [operator.add, operator.sub, operator.lt])
def test_a_unit_does_not_mix_with_a_bare_number(unit: Callable[[int], object], combine: Callable[[object, object], object]) -> None:
    """A bare number has lost its unit: adding it is how MiB become GB and milliseconds become seconds."""
    for bare in (1, 1.0, True):
        with pytest.raises(TypeError):
            combine(unit(1), bare)
        with pytest.raises(TypeError):
            combine(bare, unit(1))


@pytest.mark.parametrize(
    ("left", "right"), [(left, right) for left in UNITS for right in UNITS if left is not right and (left, right) != (Instant, Span)]
)
def test_two_units_do_not_mix(left: Callable[[int], object], right: Callable[[int], object]) -> None:
    """VRAM plus money has no meaning; only a point of time may be moved by a length of time."""
    with pytest.raises(TypeError):
        operator.add(left(1), right(1))


def test_equal_numbers_of_different_units_differ() -> None:
    """A mix-up must not pass as equality either, in a set or as a key."""
    assert len(UNITS) == len({unit(1) for unit in UNITS})


def test_times_keep_their_algebra() -> None:
    """Two points differ by a length, and a point moved by that length is the other: two points cannot be added."""
    assert Span(250) == Instant(1_250) - Instant(1_000)
    assert Instant(1_250) == Instant(1_000) + Span(250)
    assert Span(3_723_000) == Span.of(hours=1, minutes=2, seconds=3)
    with pytest.raises(TypeError):
        operator.add(Instant(1), Instant(1))


@pytest.mark.parametrize("times", [1.5, True, "2", Mib(2)])
def test_vram_is_multiplied_by_whole_numbers_only(times: object) -> None:
    """A float would round VRAM, and a bool is a slip."""
    assert Mib(20_480) == Mib(5_120) * 4
    with pytest.raises(TypeError):
        operator.mul(Mib(1), times)


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (8_192, "8GB"),
        (8_192, "8 gib"),
        (8_192, 8),
        (8_192, 8.0),
        (512, "0.5 GB"),
        (512, 0.5),
        (40_960, "40960MiB"),
        (1, "1m"),
        (2_097_152, "2TB"),
    ],
)
def test_vram_is_read_as_people_write_it(mib: int, text: object) -> None:
    """A price list's GB is 1024 MiB; what a person types becomes that exactly."""
    assert Mib(mib) == Mib.parse(text)


@pytest.mark.parametrize("total", [1, MAX_MIB])
def test_the_least_and_the_greatest_vram_are_accepted(total: int) -> None:
    """The bounds themselves are legal; one beyond either is not."""
    assert Mib(total) == Mib.parse(f"{total}MiB")
    with pytest.raises(Invalid):
        Mib.parse(f"{0 if total == 1 else total + 1}MiB")


NO_VRAM: list[object] = [
    *(0, -1, True, None, [], b"8GB", "", " ", "GB", "8 bananas", "8GB8", "8_0GB", "٨GB", "8,5GB", "+8GB", "-8GB", "0x8", "8\n GB GB"),
    *("NaN", float("nan"), float("inf"), "Infinity", "1e308", 1e308, "9" * 400, "0.0001GB", 1 / 3, "17TB"),
]


@pytest.mark.parametrize("text", NO_VRAM, ids=lambda text: repr(text)[:20])
def test_nonsense_as_vram_is_refused_with_field_value_and_remedy(text: object) -> None:
    """Whoever typed it must see which field is meant, what arrived and what would be right."""
    with pytest.raises(Invalid) as refused:
        Mib.parse(text, "vram_per_gpu")
    assert "vram_per_gpu" == refused.value.field
    assert "vram_per_gpu" in refused.value.message
    assert str(text)[:200] == refused.value.value
    assert '"8GB"' in refused.value.remedy


def test_a_fraction_of_a_mib_is_refused_and_never_rounded() -> None:
    """Rounded up it would book what was not asked; rounded down the work would not fit."""
    with pytest.raises(Invalid, match=r"1536\.5 MiB, not a whole number of MiB"):
        Mib.parse("1536.5MiB")


@pytest.mark.parametrize(("micro", "text"), [(8_000_000, 8), (250_000, "0.25"), (1, "0.000001"), (-1_500_000, "-1.5"), (0, "0")])
def test_credits_are_read_exactly(micro: int, text: object) -> None:
    """Money never passes through a float."""
    assert Credits(micro) == Credits.parse(text)


@pytest.mark.parametrize("text", ["", "0.0000001", "1e3", "NaN", "inf", True, None, "1 credit", "1,5", "--1", "9" * 13], ids=repr)
def test_nonsense_as_credits_is_refused_with_field_value_and_remedy(text: object) -> None:
    """A seventh decimal place would have to be rounded, and nobody asked for that."""
    with pytest.raises(Invalid) as refused:
        Credits.parse(text, "top_up")
    assert ("top_up", str(text)) == (refused.value.field, refused.value.value)
    assert "six decimal places" in refused.value.remedy


@given(st.integers(-(10**17), 10**17))
def test_credits_print_as_they_are_read(micro: int) -> None:
    """The bill is shown to the micro-credit, also below zero: what is printed is all there is."""
    assert Credits(micro) == Credits.parse(str(Credits(micro)))


def test_eight_gb_for_an_hour_cost_eight_credits() -> None:
    """The figure that the price list promises."""
    assert Credits(8 * MICRO) == Rate(8 * MICRO).prorate_floor(Span.of(hours=1))


def test_a_cost_is_floored_once_and_below_zero_time_there_is_none() -> None:
    """One micro-credit per hour is nothing until the hour is full: a floor, not a rounding to the nearest."""
    assert Credits(0) == Rate(1).prorate_floor(Span(MS_PER_HOUR - 1))
    assert Credits(1) == Rate(1).prorate_floor(Span(MS_PER_HOUR))
    assert Credits(1) == Rate(1).prorate_ceil(Span(1))


rates = st.builds(Rate, st.integers(0, 10**15), st.integers(1, 10**9))
spans = st.builds(Span, st.integers(0, 10**12))


@given(rates, spans)
def test_a_cost_is_the_floor_of_the_exact_fraction_and_a_hold_its_ceiling(rate: Rate, ran: Span) -> None:
    """A hold of the same time never falls short of the cost, and is never more than one micro-credit above it."""
    exact = rate.fraction * ran.ms / MS_PER_HOUR
    assert exact.__floor__() == rate.prorate_floor(ran).micro
    assert exact.__ceil__() == rate.prorate_ceil(ran).micro


@given(rates, st.lists(spans, min_size=1, max_size=8))
def test_totals_at_ticks_grow_and_end_at_the_closed_form(rate: Rate, ticks: list[Span]) -> None:
    """A tick posts the total so far: however ticks fall, no difference is negative and their sum is one floor."""
    until = sorted(ticks)
    totals = [rate.prorate_floor(ran).micro for ran in until]
    steps = [after - before for before, after in zip([0, *totals], totals, strict=False)]
    assert min(steps) >= 0
    assert rate.prorate_floor(until[-1]).micro == sum(steps)


@given(st.fractions(min_value=0, max_denominator=10**9))
def test_a_rate_keeps_its_fraction(exact: Fraction) -> None:
    """A third of a credit per hour stays a third."""
    assert exact == Rate.of(exact).fraction
