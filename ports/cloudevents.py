"""Usage events in the envelope of CloudEvents 1.0 (https://github.com/cloudevents/spec), as both ends of the wire know them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from ports.errors import Invalid
from ports.metering import Usage
from ports.units import Credits, Instant, Span
from ports.workloads import RunId

BATCH_TYPE = "application/cloudevents-batch+json"
ONE_TYPE = "application/cloudevents+json"
SOURCE = "/gridweave"
TYPE = "io.gridweave.usage."  # and the kind
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**53

Event = dict[str, Any]


def wrapped(usage: Usage) -> Event:
    """The event as JSON. `source` and `id` together tell it from every other."""
    budget = {"percent": usage.percent, "month": usage.month} if usage.percent else {}
    return {
        "specversion": "1.0",
        "id": usage.id,
        "source": SOURCE,
        "type": TYPE + usage.kind,
        "subject": str(usage.run),
        "time": _time(usage.at),
        "datacontenttype": "application/json",
        "data": {"user": usage.user, "run": str(usage.run), "ran_ms": usage.ran.ms, "micro_credits": usage.total.micro} | budget,
    }


def unwrapped(event: object) -> Usage:
    """The usage of an event. Attributes that are not ours are let pass, as the specification wants. Raises Invalid."""
    if not isinstance(event, dict):
        raise Invalid("An event is a JSON object.", "event", "Send events of CloudEvents 1.0.", str(event))
    if event.get("specversion") != "1.0":
        raise Invalid("specversion is not 1.0.", "specversion", 'Send "1.0".', str(event.get("specversion")))
    kind = _text(event, "type")
    if not kind.startswith(TYPE) or len(kind) == len(TYPE):
        raise Invalid(f"type is {kind!r:.80}.", "type", f"Send {TYPE}tick, {TYPE}final, {TYPE}call or {TYPE}budget.", kind)
    data = event.get("data")
    if not isinstance(data, dict):
        raise Invalid("data is not a JSON object.", "data", "Send user, run, ran_ms and micro_credits.", str(data))
    try:
        run = RunId.parse(_text(data, "run"))
    except ValueError as error:
        raise Invalid("data.run is no id of a run.", "data.run", "Send workload/attempt.", str(data["run"])) from error
    ran, total = Span(_whole(data, "ran_ms")), Credits(_whole(data, "micro_credits"))
    budget = (_whole(data, "percent"), _text(data, "month")) if "percent" in data else (0, "")
    return Usage(_text(event, "id"), _instant(_text(event, "time")), _text(data, "user"), run, kind.removeprefix(TYPE), ran, total, *budget)


def _text(form: Event, name: str) -> str:
    value = form.get(name)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{name} is not a text of at least one character.", name, "Send one.", str(value))
    return value


def _whole(form: Event, name: str) -> int:
    value = form.get(name)
    if type(value) is not int or abs(value) > _LARGEST:
        raise Invalid(f"data.{name} is not a whole number of ordinary size.", f"data.{name}", "Send one.", str(value))
    return value


@lru_cache(64)  # all of a batch have the same
def _time(at: Instant) -> str:
    return (_EPOCH + timedelta(milliseconds=at.ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@lru_cache(64)
def _instant(text: str) -> Instant:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise Invalid(f"time is {text!r:.60}.", "time", "Send a timestamp of RFC 3339.", text) from error
    if found.tzinfo is None:
        raise Invalid(f"time is {text!r:.60}, without a zone.", "time", "Send a timestamp of RFC 3339.", text)
    return Instant((found - _EPOCH) // timedelta(milliseconds=1))
