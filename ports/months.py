"""Days and months as the books know them: in UTC, whatever zone client and server live in."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from attrs import frozen

from ports.errors import Invalid
from ports.units import Instant

ZONE = "UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FURTHEST = Instant((datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1))  # that every calendar can show
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})", re.ASCII)
_REMEDY = 'Give a month of the years 1970 to 9998 such as "2026-11"; months are those of UTC.'


def instant(of: datetime) -> Instant:
    """of: with its zone."""
    return Instant((of - _EPOCH) // timedelta(milliseconds=1))


def moment(of: Instant) -> datetime:
    """In UTC. Raises OverflowError beyond the year 9999."""
    return _EPOCH + timedelta(milliseconds=of.ms)


def day_start(at: Instant) -> Instant:
    """The midnight with which that day began."""
    return instant(moment(at).replace(hour=0, minute=0, second=0, microsecond=0))


def read_instant(text: str, name: str) -> Instant:
    """An instant as RFC 3339 with its zone, or a date, which means its first moment in UTC. Raises Invalid."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None and len(text) == len("2026-11-30"):
            found = found.replace(tzinfo=UTC)
        if found.tzinfo is None:
            raise ValueError(text)
        return instant(found)
    except (ValueError, OverflowError) as error:
        remedy = 'Give a timestamp with its zone such as "2026-11-30T00:00:00Z", or a date such as "2026-11-30" (UTC).'
        raise Invalid(f"{name} is {text!r:.60}, which is no instant.", name, remedy, text) from error


@frozen(order=True)
class Month:
    """year: 1970 to 9998. number: from 1."""

    year: int
    number: int

    @staticmethod
    def parse(text: object, name: str = "month") -> Month:
        """Raises Invalid unless it is such as "2026-11"."""
        found = _MONTH.fullmatch(text) if isinstance(text, str) else None
        if found is None or not (1970 <= int(found[1]) <= 9998 and 1 <= int(found[2]) <= 12):
            raise Invalid(f"{name} is {text!r:.60}, which is no month.", name, _REMEDY, str(text))
        return Month(int(found[1]), int(found[2]))

    @staticmethod
    def of(at: Instant) -> Month:
        found = moment(at)
        return Month(found.year, found.month)

    @property
    def next(self) -> Month:
        return Month(self.year + self.number // 12, self.number % 12 + 1)

    @property
    def begin(self) -> Instant:
        """Its first millisecond."""
        return instant(datetime(self.year, self.number, 1, tzinfo=UTC))

    @property
    def end(self) -> Instant:
        """The first millisecond after it."""
        return self.next.begin

    def __str__(self) -> str:
        return f"{self.year:04}-{self.number:02}"
