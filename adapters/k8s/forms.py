"""How values look in an object: times as RFC 3339, numbers of 64 bits, text that is valid Unicode.

Kubernetes stores JSON as Go reads it: a lone surrogate would become a question mark, and a number beyond 64 bits a
rounded one. The first is kept as base64 behind a mark, the second is refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from ports.errors import Invalid
from ports.units import Instant

Form = dict[str, Any]

MARK = "base64:"
LARGEST = 1_200_000  # bytes of JSON that are sent: etcd takes 1.5 MiB, and Kubernetes adds its own notes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_text(at: Instant) -> str:
    """Raises Invalid for a time outside the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=at.ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError as error:
        raise Invalid(f"{at.ms} ms is no time that Kubernetes can hold.", "time", "Give a year from 1 to 9999.", str(at.ms)) from error


def time_of(text: str) -> Instant:
    """Raises ValueError for what is no RFC 3339."""
    return Instant((datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1))


def maybe_time(text: str | None) -> Instant | None:
    return None if text is None else time_of(text)


def sendable(value: Any) -> Any:
    """The same tree, as JSON that Go gives back unchanged. Raises Invalid for a number beyond 64 bits."""
    if isinstance(value, str):
        return _sendable_text(value)
    if isinstance(value, dict):
        return {_sendable_text(key): sendable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(each) for each in value]
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise Invalid(f"{value} is beyond 64 bits.", "", "Give a smaller number.", str(value))
    return value


def original(value: Any) -> Any:
    """What was given to `sendable`."""
    if isinstance(value, str):
        return _original_text(value)
    if isinstance(value, dict):
        return {_original_text(key): original(each) for key, each in value.items()}
    if isinstance(value, list):
        return [original(each) for each in value]
    return value


def _sendable_text(text: str) -> str:
    if text.startswith(MARK):
        return MARK + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
    try:
        text.encode()
    except UnicodeEncodeError:
        return MARK + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
    return text


def _original_text(text: str) -> str:
    if not text.startswith(MARK):
        return text
    try:
        return base64.b64decode(text[len(MARK) :], validate=True).decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        return text  # somebody wrote it by hand, and meant it


def mark() -> str:
    """Another one with every write: Kubernetes takes two equal writes for one, and of two writers of a version one must lose."""
    return secrets.token_hex(6)


def without_none(form: Form) -> Form:
    return {key: value for key, value in form.items() if value is not None}


def check_size(what: str, form: Form, largest: int = LARGEST) -> None:
    """Raises Invalid before anything is sent that Kubernetes could not store."""
    size = len(json.dumps(form, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > largest:
        raise Invalid(
            f"{what} is {size} bytes as a Kubernetes object; at most {largest} can be stored.",
            "",
            "Send large environment variables, labels and requirements as files of a working folder.",
            str(size),
        )
