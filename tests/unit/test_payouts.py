"""Payouts: each provider is paid what he has earned before an instant, once, however often and in whatever order it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from ports.credits import PAID_OUT
from ports.errors import Invalid
from ports.units import Credits, Instant, Span
from tests.contract.races import in_threads
from tests.contract.samples import a_charge
from tests.memory.clock import ManualClock

HOUR = Span.of(hours=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def credit(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteCredits]:
    """Whatever a test did, its journal is proved at its end. acme has earned 30 and, an hour later, 12 more; zoe 7."""
    with closing(open_credits(tmp_path)) as database:
        made = SqliteCredits(database, clock)
        made.charge([a_charge(10, provider_acme=30, provider_zoe=7, org=5)])
        clock.advance(HOUR)
        made.charge([a_charge(20, provider_acme=42, provider_zoe=7, org=9)])
        clock.advance(HOUR)
        yield made
        assert made.verify().sound


def paid(credit: SqliteCredits, until: Instant, dry_run: bool = False) -> dict[str, int]:
    return {each.account: each.amount.micro for each in credit.payouts(until, dry_run)}


def test_what_was_earned_before_is_paid_and_the_rest_stays(credit: SqliteCredits, clock: ManualClock) -> None:
    """The entry on the border belongs to what comes after it."""
    border = clock.now() + Span(-HOUR.ms)
    assert {"provider:acme": 30, "provider:zoe": 7} == paid(credit, border)
    assert [12, 0, 37, 9] == [credit.account(name).balance.micro for name in ("provider:acme", "provider:zoe", PAID_OUT, "org")]
    (entry,) = [each for each in credit.journal("provider:zoe") if each.kind == "payout"]
    assert (Credits(-7), f"earned before {border.ms}") == (entry.amount, entry.memo)


def test_the_same_again_and_an_earlier_time_pay_nothing(credit: SqliteCredits, clock: ManualClock) -> None:
    """Nor does one that was forgotten and is made up for later."""
    now, border = clock.now(), clock.now() + Span(-HOUR.ms)
    assert {"provider:acme": 42, "provider:zoe": 7} == paid(credit, now)
    assert [{}, {}] == [paid(credit, now), paid(credit, border)]
    clock.advance(HOUR)
    credit.charge([a_charge(30, provider_acme=50, provider_zoe=7, org=9)])
    clock.advance(HOUR)
    assert {"provider:acme": 8} == paid(credit, clock.now())


def test_a_dry_run_says_the_same_and_pays_nothing(credit: SqliteCredits, clock: ManualClock) -> None:
    """It is looked at before the bank is."""
    assert paid(credit, clock.now(), dry_run=True) == paid(credit, clock.now(), dry_run=True) == paid(credit, clock.now())
    assert {} == paid(credit, clock.now(), dry_run=True)


def test_a_time_to_come_is_refused(credit: SqliteCredits, clock: ManualClock) -> None:
    """More could be earned before it, and would never be paid."""
    with pytest.raises(Invalid, match="not come yet"):
        credit.payouts(clock.now() + Span(1))


def test_two_at_once_pay_once(credit: SqliteCredits, clock: ManualClock) -> None:
    """A cron job that hangs beside the one that an operator starts by hand."""
    found = in_threads(lambda _: paid(credit, clock.now()), 4)
    assert sorted([{}, {}, {}, {"provider:acme": 42, "provider:zoe": 7}], key=len) == sorted(found, key=lambda each: len(str(each)))
    assert 49 == credit.account(PAID_OUT).balance.micro


def test_a_provider_in_debt_is_paid_nothing(credit: SqliteCredits, clock: ManualClock) -> None:
    """A correction is made up for first."""
    credit.post("correction", "correction", {"provider:acme": Credits(-50), "platform": Credits(50)})
    clock.advance(HOUR)
    assert {"provider:zoe": 7} == paid(credit, clock.now())
