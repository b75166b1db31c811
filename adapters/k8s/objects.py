"""Objects of one kind through CustomObjectsApi, with the API's answers in our words.

No answer, a full server and a refused permission are Unavailable; a stale resourceVersion is a Conflict; what the
schema refuses is Invalid, with what the server said. A list is read page by page; if its token expires on the way, it
is read anew from the beginning.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import urllib3
from kubernetes.client.exceptions import ApiException

from adapters.k8s.client import GROUP, VERSION, KubeClient
from adapters.k8s.forms import Form
from ports.errors import AlreadyExists, Conflict, Invalid, Unavailable

T = TypeVar("T")

PAGE = 500  # objects in one answer of a list
RESTARTS = 5
TIMEOUT = (3.05, 15.0)  # seconds to connect, and between two parts of an answer
_API = "the Kubernetes API"


class ExpiredError(Exception):
    """A token or a resourceVersion is older than what the API server remembers (410 Gone)."""


class AbsentError(Exception):
    """There is no such object (404)."""


class Objects:
    """plural: of the kind."""

    def __init__(self, client: KubeClient, plural: str, page: int = PAGE) -> None:
        self.client = client
        self.plural = plural
        self._page = page
        self._where = (GROUP, VERSION, client.namespace, plural)

    # ------------------------------------------------------------ one object

    def create(self, key: str, form: Form) -> Form:
        """Raises AlreadyExists."""
        with answers(key):
            made: Form = self.client.custom.create_namespaced_custom_object(*self._where, form, _request_timeout=TIMEOUT)
            return made

    def get(self, key: str, name: str) -> Form | None:
        try:
            with answers(key):
                found: Form = self.client.custom.get_namespaced_custom_object(*self._where, name, _request_timeout=TIMEOUT)
                return found
        except AbsentError:
            return None

    def replace(self, key: str, form: Form) -> Form:
        """By its metadata.resourceVersion. Raises Conflict, also when it is gone."""
        return self._swap(key, form, self.client.custom.replace_namespaced_custom_object)

    def replace_status(self, key: str, form: Form) -> Form:
        """Likewise, of the status alone."""
        return self._swap(key, form, self.client.custom.replace_namespaced_custom_object_status)

    def patch(self, key: str, name: str, patch: Form) -> Form:
        """A merge patch. Raises Conflict, also when it is gone."""
        try:
            with answers(key):
                stored: Form = self.client.custom.patch_namespaced_custom_object(*self._where, name, patch, _request_timeout=TIMEOUT)
                return stored
        except AbsentError as error:
            raise Conflict(key) from error

    def delete(self, key: str, name: str, uid: str = "", version: str = "") -> Form | None:
        """Give its state if a finalizer still holds it. Raises Conflict if it is another one, or there is none."""
        conditions = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
        try:
            with answers(key):
                left: Form = self.client.custom.delete_namespaced_custom_object(*self._where, name, body=body, _request_timeout=TIMEOUT)
                return left if left.get("kind") != "Status" else None
        except AbsentError as error:
            raise Conflict(key) from error

    def _swap(self, key: str, form: Form, put: Callable[..., Any]) -> Form:
        version = form["metadata"].get("resourceVersion", "")
        if not version.isascii() or not version.isdigit():
            raise Conflict(key)  # none would be a write that looks at nothing
        try:
            with answers(key):
                stored: Form = put(*self._where, form["metadata"]["name"], form, _request_timeout=TIMEOUT)
                return stored
        except AbsentError as error:
            raise Conflict(key) from error

    # ------------------------------------------------------------ many

    def read(self, fold: Callable[[Iterator[Form]], T], labels: str = "", fields: str = "") -> tuple[T, str]:
        """What `fold` makes of all objects that match, and the resourceVersion at which they were so.

        No more than a page is held at a time. `fold` begins anew if the list has to.
        """
        for _ in range(RESTARTS):
            pages = _Pages(self, labels, fields)
            with contextlib.suppress(ExpiredError):
                return fold(iter(pages)), pages.version
        raise Unavailable(_API, "a list expired again and again while it was read", 1)

    def newest(self) -> str:
        """The resourceVersion of now."""
        return str(self.page("", "", "", limit=1)["metadata"]["resourceVersion"])

    def page(self, labels: str, fields: str, token: str, limit: int = 0) -> Form:
        """Raises ExpiredError."""
        narrowed = {key: value for key, value in (("label_selector", labels), ("field_selector", fields), ("_continue", token)) if value}
        with answers(self.plural):
            found: Form = self.client.custom.list_namespaced_custom_object(
                *self._where, limit=limit or self._page, **narrowed, _request_timeout=TIMEOUT
            )
            return found

    def watch(self, version: str, seconds: int) -> urllib3.BaseHTTPResponse:
        """The stream of what changes after `version`, as JSON lines. Raises ExpiredError."""
        with answers(self.plural):
            stream: urllib3.BaseHTTPResponse = self.client.custom.list_namespaced_custom_object(
                *self._where,
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=seconds,
                _preload_content=False,
                _request_timeout=(TIMEOUT[0], seconds + 15.0),
            )
            return stream


class _Pages:
    def __init__(self, objects: Objects, labels: str, fields: str) -> None:
        self._objects, self._labels, self._fields = objects, labels, fields
        self.version = ""

    def __iter__(self) -> Iterator[Form]:
        token = ""
        while True:
            page = self._objects.page(self._labels, self._fields, token)
            self.version = str(page["metadata"]["resourceVersion"])
            yield from page["items"]
            token = page["metadata"].get("continue") or ""
            if not token:
                return


@contextlib.contextmanager
def answers(key: str) -> Iterator[None]:
    """Turn the API's errors into ours."""
    try:
        yield
    except ApiException as error:
        raise _translated(key, error) from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unavailable(_API, type(error).__name__) from error


def _translated(key: str, error: ApiException) -> Exception:
    status, reason, message = error.status, *_said(error)
    if status == 404:
        return AbsentError(key)
    if status == 409:
        return AlreadyExists(key) if reason == "AlreadyExists" else Conflict(key)
    if status == 410:
        return ExpiredError(message)
    if status in (400, 413, 422):
        return Invalid(f"Kubernetes refuses it: {message}"[:600], "", "Give what the schema in k8s/ takes.", key)
    return Unavailable(_API, f"{status} {reason}: {message}"[:300])


def _said(error: ApiException) -> tuple[str, str]:
    """Reason and message of the Status that the API answered with."""
    try:
        told = json.loads(error.body)
        return str(told.get("reason", "")), str(told.get("message", ""))
    except (TypeError, ValueError, AttributeError):
        return str(error.reason or ""), ""
