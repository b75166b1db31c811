"""The OpenAPI 3.1 document of credit service and metering, made from the very signatures by which calls travel."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from functools import cache
from typing import Any

import attrs

from ports import cloudevents
from ports.credits import OperatedCredits
from ports.units import Credits, Instant, Span
from ports.workloads import RunId

Schema = dict[str, Any]

_UNITS: dict[Any, Schema] = {
    Credits: {"type": "integer", "description": "micro-credits; 1,000,000 are one credit"},
    Span: {"type": "integer", "description": "milliseconds"},
    Instant: {"type": "integer", "description": "milliseconds since 1970 in UTC"},
    RunId: {"type": "string", "description": "workload/attempt, or workload/attempt/replica"},
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}
_REF = "#/components/schemas/{}"


@cache
def document() -> Schema:
    schemas: dict[str, Schema] = {"Error": _ERROR, "UsageEvent": _EVENT}
    found = inspect.getmembers(OperatedCredits, inspect.isfunction)
    paths = {f"/v1/credits/{name}": {"post": _operation(name, method, schemas)} for name, method in found if not name.startswith("_")}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Gridweave credits and metering",
            "version": "1",
            "description": "Every call is safe to repeat. Amounts are integers of micro-credits.",
        },
        "paths": {**paths, "/v1/events": _METERING},
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": "ADMIN_TOKEN"}},
        },
        "security": [{"bearer": []}],
    }


def _operation(name: str, method: Callable[..., Any], schemas: dict[str, Schema]) -> Schema:
    hints = typing.get_type_hints(method)
    parameters = [each for each in inspect.signature(method).parameters.values() if each.name != "self"]
    body = {
        "type": "object",
        "properties": {each.name: _schema(hints[each.name], schemas) for each in parameters},
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
    }
    result = {"type": "object", "properties": {"result": _schema(hints["return"], schemas)}, "required": ["result"]}
    return {
        "operationId": name,
        "summary": (inspect.getdoc(method) or "").partition("\n\n")[0].replace("\n", " "),
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": _json("What it gave.", result), **_REFUSALS},
    }


def _schema(kind: Any, schemas: dict[str, Schema]) -> Schema:
    if kind in _UNITS:
        return _UNITS[kind]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (tuple, Sequence):
        return {"type": "array", "items": _schema(parts[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1], schemas)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_schema(each, schemas) for each in parts]}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    if kind.__name__ not in schemas:
        schemas[kind.__name__] = {}  # a class may hold itself
        schemas[kind.__name__] = _of_class(kind, schemas)
    return {"$ref": _REF.format(kind.__name__)}


def _of_class(kind: Any, schemas: dict[str, Schema]) -> Schema:
    hints = typing.get_type_hints(kind)
    return {
        "type": "object",
        "description": inspect.getdoc(kind) or "",
        "properties": {each.name: _schema(hints[each.name], schemas) for each in attrs.fields(kind)},
        "required": [each.name for each in attrs.fields(kind) if each.default is attrs.NOTHING],
        "additionalProperties": False,
    }


def _json(about: str, schema: Schema) -> Schema:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


_ERROR: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "Name of the error"}, "facts": {"type": "object"}},
    "required": ["error", "facts"],
}
_REFUSALS = {
    "400": _json("The request cannot be; the facts say why.", {"$ref": _REF.format("Error")}),
    "401": {"description": "ADMIN_TOKEN is wanted as bearer."},
    "503": _json("Ask again later; Retry-After says when.", {"$ref": _REF.format("Error")}),
}
_EVENT: Schema = {
    "type": "object",
    "description": "CloudEvents 1.0. An id that came before is not recorded again.",
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string"},
        "type": {"enum": [cloudevents.TYPE + kind for kind in ("tick", "final", "call", "budget")]},
        "subject": {"type": "string"},
        "time": {"type": "string", "format": "date-time"},
        "datacontenttype": {"type": "string"},
        "data": {
            "type": "object",
            "properties": {
                "user": {"type": "string"},
                "run": _UNITS[RunId],
                "ran_ms": {"type": "integer", "description": "how long it has run, in milliseconds"},
                "micro_credits": {
                    "type": "integer",
                    "description": "all that it has cost so far; of a budget: that its user has spent",
                },
                "percent": {"enum": [50, 80, 100], "description": "of a budget: so much of the month's cap is spent"},
                "month": {"type": "string", "description": "of a budget: in UTC, such as 2026-11"},
            },
            "required": ["user", "run", "ran_ms", "micro_credits"],
        },
    },
    "required": ["specversion", "id", "source", "type", "time", "data"],
}
_EVENTS: Schema = {"type": "array", "items": {"$ref": _REF.format("UsageEvent")}}
_METERING: Schema = {
    "post": {
        "operationId": "record",
        "summary": "Record usage events, all of them or none.",
        "requestBody": {
            "required": True,
            "content": {
                cloudevents.BATCH_TYPE: {"schema": _EVENTS},
                cloudevents.ONE_TYPE: {"schema": {"$ref": _REF.format("UsageEvent")}},
            },
        },
        "responses": {
            "200": _json("How many came.", {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}),
            **_REFUSALS,
        },
    },
    "get": {
        "operationId": "recorded",
        "summary": "Events in the order in which they came.",
        "parameters": [
            {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": 0}, "description": "The cursor of the last answer."},
            {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 5000}},
        ],
        "responses": {
            "200": _json(
                "Events, and where to read on.",
                {"type": "object", "properties": {"events": _EVENTS, "cursor": {"type": "integer"}}, "required": ["events", "cursor"]},
            ),
            **_REFUSALS,
        },
    },
}
