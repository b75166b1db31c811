"""How the text of an environment variable becomes a typed value, or is refused with what would be right.

A reader either gives a value or raises ValueError; `expects` finishes the sentence "Set NAME to ...".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from ports.errors import Invalid
from ports.units import Credits


@frozen
class Reader:
    """read: raises ValueError or Invalid on text that it does not take. expects: for people."""

    expects: str
    read: Callable[[str], Any]


def text(expects: str = "a text without control characters", pattern: str = r"[^\x00-\x1f\x7f]*") -> Reader:
    return Reader(expects, lambda raw: _matching(raw, pattern))


def secret(least: int = 8) -> Reader:
    """A secret of at least `least` printable ASCII characters: it travels in a header."""
    return Reader(f"at least {least} printable ASCII characters without spaces", lambda raw: _matching(raw, rf"[!-~]{{{least},}}"))


def whole(low: int, high: int, unit: str) -> Reader:
    return Reader(f"a whole number from {low} to {high} ({unit})", lambda raw: _whole(raw, low, high))


def seconds(low: int, high: int) -> Reader:
    return Reader(f"a whole number of seconds from {low} to {high}", lambda raw: _whole(raw, low, high))


def hours(high: int) -> Reader:
    return Reader(f"a number of hours from 0 to {high}, such as 1 or 0.5", lambda raw: _hours(raw, high))


def credit_amount() -> Reader:
    return Reader("a number of credits, not negative, with at most six decimal places, such as 8 or 0.25", _credits)


def switch() -> Reader:
    return Reader("true or false", _switch)


def choice(kind: type[StrEnum]) -> Reader:
    names = " or ".join(each.value for each in kind)
    return Reader(names, lambda raw: kind(raw.strip().lower()))


def url() -> Reader:
    return Reader("a URL such as http://localhost:8800", _url)


def optional(reader: Reader) -> Reader:
    """The same, and empty is allowed."""
    return Reader(f"{reader.expects}, or leave it empty", lambda raw: reader.read(raw) if raw else "")


def or_else(reader: Reader, default: Any) -> Reader:
    """The same, and empty is the default."""
    return Reader(f"{reader.expects}, or leave it empty", lambda raw: reader.read(raw) if raw.strip() else default)


def origins() -> Reader:
    return Reader("* or a comma-separated list of origins such as https://app.example.org", _origins)


def folder() -> Reader:
    return Reader("a folder path", lambda raw: Path(_matching(raw, r"[^\x00-\x1f]+")).expanduser())


def version() -> Reader:
    return Reader("a version such as 1.4.0", lambda raw: _matching(raw.strip(), r"\d{1,6}\.\d{1,6}\.\d{1,6}([-+][0-9A-Za-z.-]{1,40})?"))


def dns_label() -> Reader:
    expects = "a Kubernetes name: at most 63 lower-case letters, digits and dashes"
    return Reader(expects, lambda raw: _matching(raw, r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"))


def parse(variable: str, raw: str, reader: Reader, *, hidden: bool = False) -> Any:
    """Raises Invalid naming variable, value (masked if `hidden`) and remedy."""
    try:
        return reader.read(raw)
    except (ValueError, Invalid) as error:
        shown = "(hidden)" if hidden else raw
        said = "cannot be used (its value is hidden)" if hidden else f"is {raw!r:.80}"
        raise Invalid(f"{variable} {said}.", variable, f"Set it to {reader.expects}.", shown) from None if hidden else error


def _matching(raw: str, pattern: str) -> str:
    if re.fullmatch(pattern, raw, re.ASCII) is None:
        raise ValueError(pattern)
    return raw


def _whole(raw: str, low: int, high: int) -> int:
    number = int(_matching(raw.strip(), r"[0-9]{1,12}"))
    if not low <= number <= high:
        raise ValueError(number)
    return number


def _hours(raw: str, high: int) -> Decimal:
    amount = Decimal(_matching(raw.strip(), r"[0-9]{1,6}(\.[0-9]{1,6})?"))
    if amount > high:
        raise ValueError(raw)
    return amount


def _credits(raw: str) -> Decimal:
    if Credits.parse(raw).micro < 0:
        raise ValueError(raw)
    return Decimal(raw.strip())


def _switch(raw: str) -> bool:
    return _matching(raw.strip().lower(), "true|1|yes|on|false|0|no|off") in ("true", "1", "yes", "on")


def _url(raw: str) -> str:
    parts = urlsplit(_matching(raw.strip(), r"[!-~]+"))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(raw)
    parts.port  # noqa: B018 - raises ValueError on a port that is none
    return raw.strip().rstrip("/")


def _origins(raw: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in raw.split(",") if part.strip())
    if found == ("*",) or not found:
        return found
    for each in found:
        if urlsplit(_url(each)).path:
            raise ValueError(each)
    return found
