"""The control service's application: `POST /v1/<what>/<function>` with the arguments as a JSON object.

`crd` is the controller library; `workloads`, `nodes`, `tariffs`, `epochs` and `elections` are the ports. Whoever has ADMIN_TOKEN may
call everything, nobody else anything. An error is the error that was raised, with its facts.
"""

from __future__ import annotations

import hmac
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

import falcon
import structlog
from attrs import frozen

from ports import calls
from ports.calls import ControlFacts, Method
from ports.endpoint_control import EndpointControl
from ports.endpoints import Endpoints
from ports.errors import (
    Conflict,
    Forbidden,
    GridweaveError,
    IllegalTransition,
    Invalid,
    NotFound,
    Unavailable,
)
from ports.job_control import DismissableWorkloads, JobControl
from ports.leadership import Elections, Epochs
from ports.nodes import NodeRecords
from ports.tariffs import Tariffs
from ports.units import Instant, Span

LONGEST_WAIT = Span.of(seconds=30)  # of one call of `changes`
LARGEST = 4 * 1024 * 1024  # bytes of a request
log = structlog.get_logger("gridweave.control")


@frozen
class Behind:
    """What the service re-exposes. now: the time, for records."""

    namespace: str
    workloads: DismissableWorkloads
    endpoints: Endpoints
    nodes: NodeRecords
    tariffs: Tariffs
    epochs: Epochs
    elections: Elections
    now: Callable[[], Instant]


@frozen
class _Function:
    """method: by whose annotations arguments and result travel. call: what is done."""

    method: Method
    call: Callable[..., Any]


def functions(behind: Behind) -> dict[str, dict[str, _Function]]:
    """By what and name."""
    jobs, endpoints = JobControl(behind.workloads, behind.now), EndpointControl(behind.endpoints, behind.now)
    namespace = _Function(ControlFacts.namespace, lambda: behind.namespace)
    workloads = _table(DismissableWorkloads, behind.workloads)
    changes = workloads["changes"]

    def bounded(cursor: str, wait: Span = Span(0)) -> Any:
        return changes.call(cursor, min(wait, LONGEST_WAIT))

    return {
        "crd": {"namespace": namespace, **_table(JobControl, jobs), **_table(EndpointControl, endpoints)},
        "workloads": {**workloads, "changes": _Function(changes.method, bounded)},
        "nodes": _table(NodeRecords, behind.nodes),
        "tariffs": _table(Tariffs, behind.tariffs),
        "epochs": _table(Epochs, behind.epochs),
        "elections": _table(Elections, behind.elections),
    }


def _table(kind: type, made: object) -> dict[str, _Function]:
    public = {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {name: _Function(method, getattr(made, name)) for name, method in public.items()}


class Calls:
    """The one resource."""

    def __init__(self, table: Mapping[str, Mapping[str, _Function]]) -> None:
        self._table = table

    def on_post(self, request: falcon.Request, response: falcon.Response, what: str, name: str) -> None:
        function = self._table.get(what, {}).get(name)
        if function is None:
            raise NotFound(f"There is no function {what}/{name}."[:200], "", "See the docstring of adapters.remote.crd.")
        arguments = calls.unpack(function.method, _body(request))
        _say(response, {"result": calls.give(function.call(**arguments))})


def _body(request: falcon.Request) -> object:
    length = request.content_length
    if length is None or length > LARGEST:
        raise Invalid("A body with a Content-Length is wanted.", "", f"Send at most {LARGEST} bytes of JSON.", str(length))
    try:
        return json.loads(request.bounded_stream.read(LARGEST))
    except (ValueError, RecursionError) as error:
        raise Invalid("The body is no JSON.", "", 'Send {"argument": value, …}.') from error


def _say(response: falcon.Response, form: object) -> None:
    """As ASCII: half of a surrogate pair travels as its escape."""
    response.data = json.dumps(form, separators=(",", ":")).encode()
    response.content_type = falcon.MEDIA_JSON


class Bearer:
    """Middleware: nobody without the token gets past it, except to the probes."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        if request.path in ("/healthz", "/readyz"):
            return
        given = (request.get_header("Authorization") or "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._expected):
            raise falcon.HTTPUnauthorized(title="ADMIN_TOKEN is wanted as bearer", challenges=["Bearer"])


class Health:
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"status": "ok"}


class Ready:
    """Whether the store answers."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        try:
            self._epochs.read()
        except Unavailable as error:
            response.status, response.media = 503, {"ready": False, "reasons": [str(error)]}
            return
        response.media = {"ready": True, "reasons": []}


_STATUS: tuple[tuple[type[GridweaveError], int], ...] = (
    (Unavailable, 503),
    (Conflict, 409),
    (IllegalTransition, 409),
    (NotFound, 404),
    (Forbidden, 403),
    (GridweaveError, 400),
)


def _refused(request: falcon.Request, response: falcon.Response, error: Exception, params: object) -> None:
    assert isinstance(error, GridweaveError)  # noqa: S101 - it is registered for those
    response.status = next(status for kind, status in _STATUS if isinstance(error, kind))
    _say(response, calls.give_error(error))
    if isinstance(error, Unavailable):
        response.set_header("Retry-After", str(error.retry_after_s))


def _broken(request: falcon.Request, response: falcon.Response, error: Exception, params: object) -> None:
    log.exception("a call broke", path=request.path)
    response.status = 500
    _say(response, calls.give_error(Unavailable("the control service", "it has a fault; see its log")))


def make_app(behind: Behind, token: str) -> falcon.App[falcon.Request, falcon.Response]:
    """token: at least one character; whoever has it may call everything."""
    if not token:
        raise ValueError("a control service without a token would serve everybody")
    app = falcon.App(middleware=[Bearer(token)])
    app.add_route("/v1/{what}/{name}", Calls(functions(behind)))
    app.add_route("/healthz", Health())
    app.add_route("/readyz", Ready(behind.epochs))
    app.add_error_handler(Exception, _broken)
    app.add_error_handler(falcon.HTTPError, _as_it_is)
    app.add_error_handler(GridweaveError, _refused)
    return app


def _as_it_is(request: falcon.Request, response: falcon.Response, error: Exception, params: object) -> None:
    raise error
