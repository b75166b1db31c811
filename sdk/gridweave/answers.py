"""What the gateway answered: a success, or its problem as one of our errors."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import unquote

import httpx

from gridweave.errors import NotFound, Refused, Unavailable

_REMEDIES = {  # where the gateway gave none
    "unauthenticated": "Set GRIDWEAVE_API_KEY to a key of yours.",
    "version-mismatch": "Run the client with the cluster's Python minor version and cloudpickle major version, in a virtual environment.",
    "upgrade-required": "Install the client of the server's version, from a checkout of it: pip install ./sdk",
}
_JOB = re.compile(r"/v1/jobs/([^/]+)/")


def checked(response: httpx.Response) -> httpx.Response:
    """The response if it is a success. Raises Refused, NotFound, or Unavailable for a 5xx."""
    if response.status_code < 300:
        return response
    if response.status_code < 400:
        raise _no_gateway(response, f"a redirect to {response.headers.get('location', 'nowhere')}")
    if response.status_code >= 500:
        raise unavailable(response)
    facts = problem(response)
    kind = str(facts.pop("type", "")).rpartition("/")[2] or "refused"
    status = facts.pop("status", None) or response.status_code
    title = facts.pop("title", "")
    words = {key: str(facts.pop(key, "") or "") for key in ("field", "value", "remedy")}
    message = str(facts.pop("detail", "") or title or f"The gateway answered {response.status_code} {response.reason_phrase}")
    words["remedy"] = words["remedy"] or _REMEDIES.get(kind, "")
    job = _JOB.match(response.request.url.raw_path.decode("ascii")) if response.status_code == 404 else None
    if job is not None and not words["value"]:
        words["field"], words["value"] = "id", unquote(job[1])
        message = f"There is no job {words['value']!r}."
    family = NotFound if response.status_code == 404 else Refused
    raise family(message, kind=kind, status=int(status), facts=facts, **words)


def facts_of(response: httpx.Response) -> dict[str, Any]:
    """The JSON object that is the answer. Raises Refused if it is none: then there is no gateway at that address."""
    try:
        facts = json.loads(response.content)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        raise _no_gateway(response, f"{response.headers.get('content-type', 'something')} that is no answer of a gateway")
    return facts


def _no_gateway(response: httpx.Response, what: str) -> Refused:
    url = f"{response.url.scheme}://{response.url.netloc.decode('ascii')}"
    return Refused(f"{url} answers with {what}.", kind="no-gateway", field="url", value=url, remedy="Is GRIDWEAVE_URL right?")


def unavailable(response: httpx.Response) -> Unavailable:
    """The error of a 408, 429 or 5xx, with the pause that the gateway asked for."""
    facts = problem(response)
    said = facts.get("detail") or facts.get("title") or f"{response.status_code} {response.reason_phrase}"
    asked = response.headers.get("retry-after", "")
    what = "What was being sent has stalled on its way" if response.status_code == 408 else "The gateway cannot serve now"
    remedy = f" {facts['remedy']}" if response.status_code == 408 and facts.get("remedy") else ""
    error = Unavailable(f"{what}: {said}{remedy}", float(asked) if asked.isdigit() else 5)
    if asked.isdigit():
        error.asked_pause = float(asked)  # type: ignore[attr-defined]
    return error


def problem(response: httpx.Response) -> dict[str, Any]:
    """The fields of a problem+json body; empty if it is none."""
    try:
        facts = json.loads(response.content)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}
