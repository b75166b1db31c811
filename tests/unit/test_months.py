"""Months and days are those of UTC, whatever zone whoever asks lives in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from ports import months
from ports.errors import Invalid
from ports.months import Month
from ports.units import Instant, Span


@pytest.fixture(params=["UTC", "America/St_Johns", "Pacific/Kiritimati", "Europe/Berlin"])
def _somewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_somewhere")
@pytest.mark.parametrize(
    ("month", "begin", "days"),
    [
        ("2026-11", "2026-11-01T00:00:00+00:00", 30),
        ("2026-12", "2026-12-01T00:00:00+00:00", 31),
        ("2027-02", "2027-02-01T00:00:00+00:00", 28),
        ("2028-02", "2028-02-01T00:00:00+00:00", 29),
        ("2000-02", "2000-02-01T00:00:00+00:00", 29),
        ("2100-02", "2100-02-01T00:00:00+00:00", 28),
        ("2026-03", "2026-03-01T00:00:00+00:00", 31),  # in which Berlin sets its clocks forward
        ("2026-10", "2026-10-01T00:00:00+00:00", 31),  # and back
        ("1970-01", "1970-01-01T00:00:00+00:00", 31),
    ],
)
def test_a_month_is_whole_days_of_utc(month: str, begin: str, days: int) -> None:
    """A bill that has an hour too many in October is wrong twice a year."""
    found = Month.parse(month)
    assert months.instant(datetime.fromisoformat(begin)) == found.begin
    assert Span.of(hours=24 * days) == found.end - found.begin
    assert (month, found.end) == (str(found), found.next.begin)


@pytest.mark.usefixtures("_somewhere")
def test_every_instant_is_in_one_month_and_one_day() -> None:
    """What lies on the border counts once."""
    for month in ("2026-12", "2028-02"):
        found = Month.parse(month)
        assert [found, found.next] == [Month.of(Instant(found.end.ms - 1)), Month.of(found.end)]
    noon = months.instant(datetime(2028, 2, 29, 12, 30, tzinfo=UTC))
    assert months.instant(datetime(2028, 2, 29, tzinfo=UTC)) == months.day_start(noon)


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-00", "2026-1", "26-11", "2026-11-01", "1969-12", "9999-12", "", "\u0662026-11", None, 202611]
)
def test_what_is_no_month_is_refused(text: object) -> None:
    """A statement of some other month would be believed."""
    with pytest.raises(Invalid, match="month"):
        Month.parse(text)


@pytest.mark.usefixtures("_somewhere")
def test_a_date_is_its_first_moment_in_utc_and_a_time_needs_its_zone() -> None:
    """A payout until a date pays the same from every desk."""
    midnight = months.instant(datetime(2026, 12, 1, tzinfo=UTC))
    texts = ("2026-12-01", "2026-12-01T00:00:00Z", "2026-12-01T01:00:00+01:00")
    assert [midnight] * 3 == [months.read_instant(text, "until") for text in texts]
    for text in ("2026-12-01T00:00:00", "2026-02-30", "soon", "", "2026-12"):
        with pytest.raises(Invalid, match="until"):
            months.read_instant(text, "until")
