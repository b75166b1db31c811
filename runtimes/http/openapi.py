"""The OpenAPI 3.1 document, made from the table of operations and from the very classes that read and write bodies."""

from __future__ import annotations

from typing import Any

import msgspec

from runtimes.http import operations, problems
from runtimes.http.bodies import views
from runtimes.http.bodies.jobs import Payload
from runtimes.http.operations import Answer, Operation, Param

_REF = "#/components/schemas/{name}"
_CLIENT_ERRORS = (400, 401, 403, 426, 503)
_REQUESTS = {each.body for each in operations.OPERATIONS if isinstance(each.body, type)}


def document(version: str) -> dict[str, Any]:
    """version: of the server."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations.OPERATIONS:
        paths.setdefault(each.path, {})[each.method] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gridweave", "version": version, "description": "The front door of a shared GPU cluster.", "license": _LICENSE},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": _schemas(), "securitySchemes": _SECURITY},
    }


_LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
_SECURITY = {
    "platform": {"type": "apiKey", "in": "header", "name": "X-User-Id", "description": "Set by the platform, with its X-Platform-Token."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "The platform's API key, or the ADMIN_TOKEN."},
}


def _operation(each: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.about,
        "tags": [_tag(each.path)],
        "parameters": [_param(param) for param in each.params],
        "responses": _answers(each.answers) | _refusals(each),
        "security": [] if each.open else [{"platform": []}, {"bearer": []}],
    }
    if isinstance(each.body, type):
        said["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(each.body)}}}
    elif each.body is not None:
        said["requestBody"] = {"required": True, "content": {each.body: {}}}
    return said


def _tag(path: str) -> str:
    parts = path.split("/")
    return parts[2] if parts[1] == "v1" else "service"


def _param(param: Param) -> dict[str, Any]:
    return {"name": param.name, "in": param.where, "required": param.where == "path", "schema": param.schema, "description": param.about}


def _answers(answers: tuple[Answer, ...]) -> dict[str, Any]:
    return {str(answer.status): {"description": answer.about} | _content(answer) for answer in answers}


def _content(answer: Answer) -> dict[str, Any]:
    if answer.body is None:
        return {}
    if isinstance(answer.body, type):
        return {"content": {"application/json": {"schema": _ref(answer.body)}}}
    return {"content": {kind: {} for kind in (answer.body, *answer.also)}}


def _refusals(each: Operation) -> dict[str, Any]:
    statuses = (() if each.open else _CLIENT_ERRORS) + each.refusals + ((400,) if each.open and each.refusals else ())
    statuses += (408,) if 413 in each.refusals else ()  # whoever may send too much may also send nothing
    titles = {kind.status: kind.title for kind in reversed(problems.TABLE.values())}
    content = {problems.MEDIA_TYPE: {"schema": _ref(views.Problem)}}
    return {str(status): {"description": titles.get(status, "Refused"), "content": content} for status in sorted(set(statuses))}


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def _schemas() -> dict[str, Any]:
    answers = {answer.body for each in operations.OPERATIONS for answer in each.answers if isinstance(answer.body, type)}
    kinds = sorted(_REQUESTS | answers | {views.Problem}, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    for name in _below(schemas, {kind.__name__ for kind in _REQUESTS}):
        schemas[name]["additionalProperties"] = False
    schemas[Payload.__name__]["oneOf"] = [{"required": ["sha256", "size"]}, {"required": ["inline"]}]
    portable: dict[str, Any] = _portable(schemas)
    return portable


def _below(schemas: dict[str, Any], names: set[str]) -> set[str]:
    """Those schemas and all that they refer to."""
    found: set[str] = set()
    while names:
        name = names.pop()
        found.add(name)
        text = msgspec.json.encode(schemas[name]).decode()
        names |= {other for other in schemas if f'"{_REF.format(name=other)}"' in text} - found
    return found


def _portable(schema: Any) -> Any:
    r"""Patterns in the dialect of JSON Schema: `$` in place of Python's `\Z`."""
    if isinstance(schema, dict):
        return {key: value.replace(r"\Z", "$") if key == "pattern" else _portable(value) for key, value in schema.items()}
    return [_portable(each) for each in schema] if isinstance(schema, list) else schema
