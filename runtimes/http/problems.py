"""Errors as `application/problem+json` (RFC 9457): one table says which error is which status.

What is expected carries its facts. What is not is a 500 with an id, under which the log has the story; the
answer itself says nothing that could be secret.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import falcon
import falcon.asgi
import msgspec
import structlog
from attrs import frozen

from ports import errors
from ports.units import Credits, Instant
from runtimes.http import refusals
from runtimes.http.bodies import views

log = structlog.get_logger("gridweave.http")

MEDIA_TYPE = "application/problem+json"


@frozen
class Kind:
    """status: HTTP. slug: last part of the problem's type. facts: what the error adds to the answer."""

    status: int
    slug: str
    title: str
    facts: Callable[[Any], dict[str, Any]] = lambda error: {}


def _money(error: errors.CannotAfford | errors.Exposed) -> dict[str, Any]:
    return {"need": str(Credits(error.need)), "have": str(Credits(error.have))}


def _budget(error: errors.OverBudget) -> dict[str, Any]:
    ends = views.instant(Instant(error.resets))
    said = {"month": error.month, "monthly": str(Credits(error.cap)), "spent": str(Credits(error.spent)), "resets": ends}
    return {**_money(error), "budget": said}


def _versions(error: Any) -> dict[str, Any]:
    return {"client": error.client, "cluster": error.cluster}


def _ended(error: refusals.NoResult) -> dict[str, Any]:
    return {"phase": error.phase, "reason": error.reason, "message": error.why, "exit": error.exit}


TABLE: dict[type[errors.GridweaveError], Kind] = {
    refusals.TooLarge: Kind(413, "too-large", "The body is too large", lambda error: {"limit": error.limit}),
    refusals.TooSilent: Kind(408, "too-silent", "The body did not arrive"),
    refusals.WrongContentType: Kind(415, "wrong-content-type", "The content type is not supported"),
    refusals.MethodNotAllowed: Kind(
        405, "method-not-allowed", "The method is not allowed here", lambda error: {"allow": list(error.allow)}
    ),
    refusals.RangeNotSatisfiable: Kind(416, "range-not-satisfiable", "The range lies outside"),
    refusals.Unauthenticated: Kind(401, "unauthenticated", "Nobody said who is asking"),
    refusals.UpgradeRequired: Kind(
        426, "upgrade-required", "The client is too old or too new", lambda error: {"client": error.client, "server": error.server}
    ),
    refusals.NoResult: Kind(409, "no-result", "There is no result", _ended),
    errors.Invalid: Kind(400, "invalid", "The request is not valid"),
    errors.NotFound: Kind(404, "not-found", "Not found"),
    errors.Forbidden: Kind(403, "forbidden", "This is not allowed to whoever asks"),
    errors.CannotAfford: Kind(402, "cannot-afford", "The balance does not cover it", _money),
    errors.OverBudget: Kind(402, "cannot-afford", "The month's budget does not cover it", _budget),
    errors.NeverFits: Kind(422, "never-fits", "No GPU could ever hold it", lambda error: {"largest_mib": error.largest}),
    errors.VersionMismatch: Kind(409, "version-mismatch", "Versions of client and cluster differ", _versions),
    errors.Outdated: Kind(412, "outdated", "Somebody else has changed it meanwhile", lambda error: {"newest": error.newest}),
    refusals.PreconditionRequired: Kind(428, "precondition-required", "The version to be changed is wanted"),
    errors.KeyReused: Kind(409, "key-reused", "The idempotency key was used for another request"),
    errors.Refused: Kind(400, "refused", "The request cannot be fulfilled"),
    errors.Conflict: Kind(503, "unavailable", "Somebody else changed it at the same moment"),
    errors.Exposed: Kind(503, "unavailable", "What has run is not charged yet", _money),
    errors.Unavailable: Kind(503, "unavailable", "Something that is needed does not answer"),
    errors.Unreadable: Kind(503, "unreadable", "What is stored of it can't be read now"),
}


def kind_of(error: BaseException) -> Kind | None:
    """The row of an error's class, or of its nearest ancestor in the table."""
    return next((TABLE[each] for each in type(error).__mro__ if each in TABLE), None)


def body_of(error: errors.GridweaveError, kind: Kind) -> dict[str, Any]:
    """The problem document. field, value and remedy are there when they are known."""
    said = {"type": f"/problems/{kind.slug}", "title": kind.title, "status": kind.status, "detail": _detail(error)}
    known = {name: getattr(error, name, "") for name in ("field", "value", "remedy")}
    return said | {name: value for name, value in known.items() if value != ""} | kind.facts(error)


def _detail(error: errors.GridweaveError) -> str:
    if isinstance(error, errors.Conflict):
        return "It was changed by another writer at the same moment; the same request may be repeated."
    return error.message if isinstance(error, errors.Refused) else str(error)


def headers_of(error: errors.GridweaveError) -> dict[str, str]:
    if isinstance(error, errors.Unavailable):
        return {"Retry-After": str(error.retry_after_s)}
    if isinstance(error, errors.Conflict):
        return {"Retry-After": "1"}
    if isinstance(error, refusals.TooSilent):
        return {"Connection": "close"}  # what comes late would be read as the next request
    if isinstance(error, refusals.MethodNotAllowed):
        return {"Allow": ", ".join(error.allow)}
    if isinstance(error, refusals.Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="gridweave"'}
    if isinstance(error, refusals.RangeNotSatisfiable):
        return {"Content-Range": f"bytes */{error.size}"}
    return {}


async def handle(req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Exception, params: dict[str, Any]) -> None:
    """Falcon's handler of every exception that leaves a route or a middleware."""
    if isinstance(error, falcon.HTTPStatus):
        raise error
    known = _of_falcon(req, error) if isinstance(error, falcon.HTTPError) else error
    kind = kind_of(known)
    if kind is None or not isinstance(known, errors.GridweaveError):
        _unexpected(req, resp, error)
        return
    if kind.status == 503:
        log.warning("unavailable", **_about(req, params), what=str(known))
    elif kind.status not in _UNREMARKABLE:
        said = {"why": _detail(known)} if isinstance(known, _OURS_ALONE) else {}
        log.info("refused", **_about(req, params), status=kind.status, kind=kind.slug, field=getattr(known, "field", ""), **said)
    write(resp, kind.status, body_of(known, kind), headers_of(known))


_UNREMARKABLE = (404, 416)  # people poll, and look for what is not there
_OURS_ALONE = (errors.CannotAfford, errors.NeverFits, errors.VersionMismatch)  # whose words repeat nothing that a user wrote


def _about(req: falcon.asgi.Request, params: dict[str, Any]) -> dict[str, Any]:
    """Whose request it is, and about what, as far as it is known."""
    caller = getattr(req.context, "caller", None)
    workload = getattr(req.context, "workload", "") or str(params.get("id", ""))[:63]
    return {"route": req.uri_template, "method": req.method, "user": caller.user if caller is not None else "", "workload": workload}


def _encoded(body: dict[str, Any]) -> bytes:
    """Also where it repeats half of a surrogate pair that came in a key."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return json.dumps(body).encode()


def write(resp: falcon.asgi.Response, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
    resp.status = falcon.code_to_http_status(status)
    resp.content_type = MEDIA_TYPE
    resp.data, resp.text, resp.stream, resp.sse = _encoded(body), None, None, None
    for name, value in headers.items():
        resp.set_header(name, value)


def _unexpected(req: falcon.asgi.Request, resp: falcon.asgi.Response, error: Exception) -> None:
    incident = uuid.uuid4().hex
    log.error("unexpected", incident=incident, **_about(req, {}), exc_info=error)
    said = {
        "type": "/problems/internal",
        "title": "Something went wrong on our side",
        "status": 500,
        "detail": f"The request failed for a reason that is in the gateway's log under {incident}.",
        "remedy": "Try again; if it stays, give this id to whoever runs the gateway.",
        "incident": incident,
    }
    write(resp, 500, said, {})


def _of_falcon(req: falcon.asgi.Request, error: falcon.HTTPError) -> errors.GridweaveError | Exception:
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        allow = tuple(part.strip() for part in dict(error.headers or {}).get("Allow", "").split(",") if part.strip())
        return refusals.MethodNotAllowed(f"{req.method} is not allowed here.", "method", f"Use {' or '.join(allow)}.", allow, req.method)
    if isinstance(error, falcon.HTTPNotFound):
        return errors.NotFound("There is no such route.", "path", "The routes are listed at /openapi.json and /docs.")
    if error.status_code < 500:
        return errors.Invalid(error.description or error.title or "The request is not valid.", "", "See /openapi.json.")
    return error
