"""The OpenAPI document of gridweave-credits: whoever writes a service of his own has nothing else to go by."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import jsonschema_rs
import pytest

from ports import calls, cloudevents
from ports.credits import OperatedCredits
from ports.metering import Usage
from ports.units import Credits, Instant, Span
from ports.workloads import RunId
from runtimes.credits.document import document
from tests.contract.samples import a_charge


def schema_of(call: str) -> dict[str, Any]:
    """Of a request's body, with everything that it refers to."""
    said = document()["paths"][f"/v1/credits/{call}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return {**said, "components": document()["components"]}


def test_every_call_is_in_it_and_every_reference_leads_somewhere() -> None:
    names = {name for name, _ in inspect.getmembers(OperatedCredits, inspect.isfunction) if not name.startswith("_")}
    assert {f"/v1/credits/{name}" for name in names} | {"/v1/events"} == set(document()["paths"])
    schemas = document()["components"]["schemas"]
    assert set(re.findall(r"#/components/schemas/([A-Za-z]+)", json.dumps(document()))) <= set(schemas)
    assert {"Charge", "ChargeAnswer", "Entry", "HoldAnswer", "Account"} <= set(schemas)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("charge", ([a_charge(5, org=3, platform=1)],)),
        ("authorise", ("key", "user:alice", Credits(5))),
        ("journal", ("org",)),
        ("turnover", ("org", Instant(0), Instant(5))),
        ("post", ("key", "grant", {"issue": Credits(-1), "user:alice": Credits(1)})),
    ],
)
def test_what_our_client_sends_is_what_it_says(call: str, arguments: tuple[Any, ...]) -> None:
    """A document that is not what is spoken is worse than none."""
    form = calls.pack(getattr(OperatedCredits, call), *arguments)
    jsonschema_rs.validate(schema_of(call), form)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema_of(call), {**form, "another": 1})


def test_an_event_is_what_it_says() -> None:
    schema = {"$ref": "#/components/schemas/UsageEvent", "components": document()["components"]}
    event = cloudevents.wrapped(Usage("1", Instant(5), "alice", RunId("job", 1), "final", Span(5), Credits(7)))
    jsonschema_rs.validate(schema, event)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {**event, "data": {}})
