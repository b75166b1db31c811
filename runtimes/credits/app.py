"""The application: `POST /v1/credits/<function>` with the arguments as a JSON object, and `/v1/events` for metering.

Whoever has ADMIN_TOKEN may call everything, nobody else anything but the probes and the document. Every call is safe
to repeat; an error is the error that was raised, with its facts.
"""

from __future__ import annotations

from typing import Protocol

import falcon
from attrs import frozen

from ports import cloudevents
from ports.credits import BEGINNING, END, ISSUE, Entry, OperatedCredits
from ports.errors import Invalid
from ports.metering import Metering, Usage
from ports.units import Instant
from runtimes.control.app import Function, app_of, json_of, say, table_of
from runtimes.credits.document import document

WHAT = "the credit service"
MOST_ENTRIES = 10_000  # in one answer
MOST_EVENTS = 5_000


class KeptMetering(Metering, Protocol):
    """Metering whose events can be read on from a number."""

    def recorded(self, after: int = 0, limit: int = 1000) -> tuple[tuple[int, Usage], ...]: ...


@frozen
class Books:
    """What is served."""

    credits: OperatedCredits
    metering: KeptMetering


def functions(books: Books) -> dict[str, dict[str, Function]]:
    table = table_of(OperatedCredits, books.credits)

    def journal(account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END) -> tuple[Entry, ...]:
        return books.credits.journal(account, after, max(0, min(limit, MOST_ENTRIES)), since, until)

    return {"credits": {**table, "journal": Function(table["journal"].method, journal)}}


@frozen
class Events:
    """Metering: takes CloudEvents, one or a batch, and gives them back in the order in which they came."""

    metering: KeptMetering

    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        """All of them or none; whatever has come before under its id is not kept twice."""
        kind = (request.content_type or "").partition(";")[0].strip().lower()
        if kind not in (cloudevents.BATCH_TYPE, cloudevents.ONE_TYPE):
            raise Invalid(
                f"Content-Type is {kind!r:.80}.", "Content-Type", f"Send {cloudevents.BATCH_TYPE} or {cloudevents.ONE_TYPE}.", kind
            )
        form = json_of(request)
        events = form if kind == cloudevents.BATCH_TYPE else [form]
        if not isinstance(events, list) or len(events) > MOST_EVENTS:
            raise Invalid("A batch is a list of events.", "body", f"Send at most {MOST_EVENTS} in a JSON array.")
        self.metering.record([cloudevents.unwrapped(each) for each in events])
        say(response, {"result": len(events)})

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        after = request.get_param_as_int("after", min_value=0, default=0)
        limit = request.get_param_as_int("limit", min_value=1, max_value=MOST_EVENTS, default=1000)
        found = self.metering.recorded(after, limit)
        events = [cloudevents.wrapped(usage) | {"sequence": str(seq)} for seq, usage in found]
        say(response, {"events": events, "cursor": found[-1][0] if found else after})


class Document:
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        say(response, document())


def make_app(books: Books, token: str) -> falcon.App[falcon.Request, falcon.Response]:
    """token: at least one character."""
    app = app_of(functions(books), token, lambda: books.credits.account(ISSUE), WHAT)
    app.add_route("/v1/events", Events(books.metering))
    app.add_route("/openapi.json", Document())
    return app
