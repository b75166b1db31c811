"""Units as types. They refuse to mix: `Mib(1) + 1` is a TypeError, and so is `Mib(1) + Credits(1)`.

No float touches money or VRAM. What a person types ("8GB", 1.5) becomes exact here or is refused.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from attrs import frozen

from ports.errors import Invalid

MICRO = 1_000_000  # micro-credits in a credit
MIB_PER_GB = 1024  # a price list's GB is 1024 MiB
MS_PER_HOUR = 3_600_000


@frozen(order=True)
class Mib:
    """An amount of VRAM in MiB (2**20 bytes)."""

    n: int

    def __add__(self, other: Mib) -> Mib:
        return Mib(self.n + other.n) if type(other) is Mib else NotImplemented

    def __sub__(self, other: Mib) -> Mib:
        return Mib(self.n - other.n) if type(other) is Mib else NotImplemented

    def __mul__(self, times: int) -> Mib:
        return Mib(self.n * times) if type(times) is int else NotImplemented

    def __str__(self) -> str:
        return f"{self.n} MiB"

    @staticmethod
    def parse(text: object, name: str = "vram") -> Mib:
        """Read "8GB", "8192MiB", "0.5 GB" or a plain number of GB. Raises Invalid, naming field and remedy."""
        remedy = 'Give a positive amount such as "8GB", "40960MiB" or 8 (GB); it must be a whole number of MiB.'
        found = _AMOUNT.fullmatch(str(text).strip()) if isinstance(text, str | int | float) and not isinstance(text, bool) else None
        if found is None:
            raise Invalid(f"{name} is not an amount of memory: {text!r:.60}.", name, remedy, str(text))
        try:
            mib = Fraction(Decimal(found[1])) * _FACTORS[found[2].lower()]
        except InvalidOperation as error:
            raise Invalid(f"{name} is not a number: {text!r:.60}.", name, remedy, str(text)) from error
        if mib.denominator != 1:
            raise Invalid(f"{name} {text!r} is {float(mib):g} MiB, not a whole number of MiB.", name, remedy, str(text))
        if not 0 < mib <= MAX_MIB:
            raise Invalid(f"{name} must be more than 0 and at most {MAX_MIB} MiB, not {text!r:.60}.", name, remedy, str(text))
        return Mib(int(mib))


MAX_MIB = 16 * 1024 * 1024  # 16 TiB: far beyond any GPU, small enough to stay an int everywhere
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(|[gmt]i?b?)", re.IGNORECASE | re.ASCII)
_FACTORS = (
    {"": 1024, "m": 1, "mb": 1, "mi": 1, "mib": 1}
    | dict.fromkeys(("g", "gb", "gi", "gib"), 1024)
    | dict.fromkeys(("t", "tb", "ti", "tib"), 1024 * 1024)
)


@frozen(order=True)
class Credits:
    """An amount of money: an integer count of micro-credits. May be negative (a balance in debt)."""

    micro: int

    def __add__(self, other: Credits) -> Credits:
        return Credits(self.micro + other.micro) if type(other) is Credits else NotImplemented

    def __sub__(self, other: Credits) -> Credits:
        return Credits(self.micro - other.micro) if type(other) is Credits else NotImplemented

    def __neg__(self) -> Credits:
        return Credits(-self.micro)

    def __str__(self) -> str:
        sign, whole = "-" if self.micro < 0 else "", abs(self.micro)
        return f"{sign}{whole // MICRO}.{whole % MICRO:06d}"

    @staticmethod
    def parse(text: object, name: str = "amount") -> Credits:
        """Read a decimal number of credits with at most six places, exactly. Raises Invalid."""
        remedy = "Give a decimal number of credits with at most six decimal places, such as 8 or 0.25."
        found = _DECIMAL.fullmatch(str(text).strip()) if isinstance(text, str | int | float) and not isinstance(text, bool) else None
        if found is None:
            raise Invalid(f"{name} is not an amount of credits: {text!r:.60}.", name, remedy, str(text))
        return Credits(int(Decimal(found[0]) * MICRO))


_DECIMAL = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,6})?", re.ASCII)


@frozen(order=True)
class Span:
    """A length of time in whole milliseconds."""

    ms: int

    def __add__(self, other: Span) -> Span:
        return Span(self.ms + other.ms) if type(other) is Span else NotImplemented

    def __sub__(self, other: Span) -> Span:
        return Span(self.ms - other.ms) if type(other) is Span else NotImplemented

    @staticmethod
    def of(*, seconds: int = 0, minutes: int = 0, hours: int = 0) -> Span:
        return Span(((hours * 60 + minutes) * 60 + seconds) * 1000)

    @property
    def seconds(self) -> float:
        """For time-outs and people only: never for money."""
        return self.ms / 1000


@frozen(order=True)
class Instant:
    """A point of wall-clock time: milliseconds since 1970 in UTC. Never used to compute a cost."""

    ms: int

    def __add__(self, other: Span) -> Instant:
        return Instant(self.ms + other.ms) if type(other) is Span else NotImplemented

    def __sub__(self, other: Instant) -> Span:
        return Span(self.ms - other.ms) if type(other) is Instant else NotImplemented


@frozen
class Rate:
    """An exact price per hour: `numerator / denominator` micro-credits per hour, never rounded."""

    numerator: int
    denominator: int = 1

    def prorate_floor(self, ran: Span) -> Credits:
        """What `ran` costs: one floor of the exact fraction, the only rounding of a cost in the house."""
        return Credits(self.numerator * ran.ms // (self.denominator * MS_PER_HOUR))

    def prorate_ceil(self, ran: Span) -> Credits:
        """For holds only: never less than what `prorate_floor` can come to."""
        return Credits(-(-self.numerator * ran.ms // (self.denominator * MS_PER_HOUR)))

    @property
    def fraction(self) -> Fraction:
        return Fraction(self.numerator, self.denominator)

    @staticmethod
    def of(exact: Fraction) -> Rate:
        return Rate(exact.numerator, exact.denominator)
