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
OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})  # probes, and what tells nothing of anybody
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
class Function:
    """method: by whose annotations arguments and result travel. call: what is done."""

    method: Method
    call: Callable[..., Any]


def functions(behind: Behind) -> dict[str, dict[str, Function]]:
    """By what and name."""
    jobs, endpoints = JobControl(behind.workloads, behind.now), EndpointControl(behind.endpoints, behind.now)
    namespace = Function(ControlFacts.namespace, lambda: behind.namespace)
    workloads = table_of(DismissableWorkloads, behind.workloads)
    changes = workloads["changes"]

    def bounded(cursor: str, wait: Span = Span(0)) -> Any:
        return changes.call(cursor, min(wait, LONGEST_WAIT))

    return {
        "crd": {"namespace": namespace, **table_of(JobControl, jobs), **table_of(EndpointControl, endpoints)},
        "workloads": {**workloads, "changes": Function(changes.method, bounded)},
        "nodes": table_of(NodeRecords, behind.nodes),
        "tariffs": table_of(Tariffs, behind.tariffs),
        "epochs": table_of(Epochs, behind.epochs),
        "elections": table_of(Elections, behind.elections),
    }


def table_of(kind: type, made: object) -> dict[str, Function]:
    """The public methods of a Protocol or class, carried out by `made`."""
    public = {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {name: Function(method, getattr(made, name)) for name, method in public.items()}


class Calls:
    """The one resource."""

    def __init__(self, table: Mapping[str, Mapping[str, Function]]) -> None:
        self._table = table

    def on_post(self, request: falcon.Request, response: falcon.Response, what: str, name: str) -> None:
        function = self._table.get(what, {}).get(name)
        if function is None:
            raise NotFound(f"There is no function {what}/{name}."[:200], "", "See the docstring of adapters.remote.crd.")
        arguments = calls.unpack(function.method, json_of(request))
        say(response, {"result": calls.give(function.call(**arguments))})


def json_of(request: falcon.Request) -> object:
    """The body. Raises Invalid."""
    length = request.content_length
    if length is None or length > LARGEST:
        raise Invalid("A body with a Content-Length is wanted.", "", f"Send at most {LARGEST} bytes of JSON.", str(length))
    try:
        return json.loads(request.bounded_stream.read(LARGEST))
    except (ValueError, RecursionError) as error:
        raise Invalid("The body is no JSON.", "", 'Send {"argument": value, …}.') from error


def say(response: falcon.Response, form: object) -> None:
    """As ASCII: half of a surrogate pair travels as its escape."""
    response.data = json.dumps(form, separators=(",", ":")).encode()
    response.content_type = falcon.MEDIA_JSON


class Bearer:
    """Middleware: nobody without the token gets past it, except to the probes."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    def process_request(self, request: falcon.Request, response: falcon.Response) -> None:
        if request.path in OPEN_PATHS:
            return
        given = (request.get_header("Authorization") or "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._expected):
            raise falcon.HTTPUnauthorized(title="ADMIN_TOKEN is wanted as bearer", challenges=["Bearer"])


class Health:
    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        response.media = {"status": "ok"}


class Ready:
    """Whether what is behind answers. ask: raises Unavailable if it does not."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self._ask = ask

    def on_get(self, request: falcon.Request, response: falcon.Response) -> None:
        try:
            self._ask()
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
    say(response, calls.give_error(error))
    if isinstance(error, Unavailable):
        response.set_header("Retry-After", str(error.retry_after_s))


def _broken(what: str) -> Callable[[falcon.Request, falcon.Response, Exception, object], None]:
    def handle(request: falcon.Request, response: falcon.Response, error: Exception, params: object) -> None:
        log.exception("a call broke", path=request.path)
        response.status = 500
        say(response, calls.give_error(Unavailable(what, "it has a fault; see its log")))

    return handle


def make_app(behind: Behind, token: str) -> falcon.App[falcon.Request, falcon.Response]:
    """token: at least one character; whoever has it may call everything."""
    return app_of(functions(behind), token, behind.epochs.read, "the control service")


def app_of(
    table: Mapping[str, Mapping[str, Function]], token: str, ask: Callable[[], object], what: str
) -> falcon.App[falcon.Request, falcon.Response]:
    """An application that serves these functions. ask: raises Unavailable while it is not ready. what: it is, in words."""
    if not token:
        raise ValueError(f"{what} without a token would serve everybody")
    app = falcon.App(middleware=[Bearer(token)])
    app.add_route("/v1/{what}/{name}", Calls(table))
    app.add_route("/healthz", Health())
    app.add_route("/readyz", Ready(ask))
    app.add_error_handler(Exception, _broken(what))
    app.add_error_handler(falcon.HTTPError, _as_it_is)
    app.add_error_handler(GridweaveError, _refused)
    return app


def _as_it_is(request: falcon.Request, response: falcon.Response, error: Exception, params: object) -> None:
    raise error
