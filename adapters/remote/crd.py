"""The controller library for those who can't reach the Kubernetes API: the same functions, through the control service.

KUBERAY_SERVICE_URL, ADMIN_TOKEN     where it is, and the bearer token that it takes
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import httpx

from adapters.remote.line import Line
from ports.calls import ControlFacts
from ports.endpoint_control import EndpointControl
from ports.errors import Refused
from ports.functions import plain
from ports.job_control import JobControl

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")
_lock = threading.Lock()
_current: list[Line] = []


def init_k8s_client(*, namespace: str = "") -> None:
    """Connect to the control service; called by the first function if nobody has. Again: anew.

    namespace: that the service must have; empty: whichever it has. Raises Refused if it is another, or ADMIN_TOKEN is not set.
    """
    token = os.environ.get("ADMIN_TOKEN", "")
    if not token:
        raise Refused("ADMIN_TOKEN is not set.", "ADMIN_TOKEN", "Set it as the control service has it.")
    use(os.environ.get("KUBERAY_SERVICE_URL", "http://localhost:8800"), token)
    if namespace:
        found = _line().call("crd", ControlFacts.namespace)
        if found != namespace:
            message = f"The control service keeps its objects in namespace {found!r}, not {namespace!r:.80}."
            raise Refused(message, "namespace", f"Give {found!r}, or none.")


def use(url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
    """Take that service."""
    with _lock:
        former, _current[:] = list(_current), [Line(url, token, transport)]
    for each in former:
        each.close()


def close() -> None:
    """Let go of the connection; the next function makes another."""
    with _lock:
        former, _current[:] = list(_current), []
    for each in former:
        each.close()


def _line() -> Line:
    while not _current:
        init_k8s_client()
    return _current[0]


def _remote(method: Callable[Concatenate[S, P], T]) -> Callable[P, T]:
    """The other end has an object of that class."""

    def call(*args: P.args, **named: P.kwargs) -> T:
        answer: T = _line().call("crd", method, *args, **named)
        return answer

    return plain(method, call, __name__)


create_job = _remote(JobControl.create_job)
get_job = _remote(JobControl.get_job)
list_jobs = _remote(JobControl.list_jobs)
delete_job = _remote(JobControl.delete_job)
set_job_funded = _remote(JobControl.set_job_funded)
set_job_cancel_requested = _remote(JobControl.set_job_cancel_requested)
set_job_allocated = _remote(JobControl.set_job_allocated)
set_job_running = _remote(JobControl.set_job_running)
set_job_ended = _remote(JobControl.set_job_ended)
set_job_result_stored = _remote(JobControl.set_job_result_stored)
set_job_charged = _remote(JobControl.set_job_charged)
set_job_billed = _remote(JobControl.set_job_billed)
set_job_low_balance = _remote(JobControl.set_job_low_balance)
set_job_completed = _remote(JobControl.set_job_completed)
set_job_failed = _remote(JobControl.set_job_failed)
set_job_cancelled = _remote(JobControl.set_job_cancelled)

create_endpoint = _remote(EndpointControl.create_endpoint)
get_endpoint = _remote(EndpointControl.get_endpoint)
list_endpoints = _remote(EndpointControl.list_endpoints)
delete_endpoint = _remote(EndpointControl.delete_endpoint)
set_endpoint_deploying = _remote(EndpointControl.set_endpoint_deploying)
set_endpoint_running = _remote(EndpointControl.set_endpoint_running)
set_endpoint_stopped = _remote(EndpointControl.set_endpoint_stopped)
set_endpoint_failed = _remote(EndpointControl.set_endpoint_failed)
set_endpoint_health = _remote(EndpointControl.set_endpoint_health)

__all__ = [
    "create_endpoint",
    "create_job",
    "delete_endpoint",
    "delete_job",
    "get_endpoint",
    "get_job",
    "init_k8s_client",
    "list_endpoints",
    "list_jobs",
    "set_endpoint_deploying",
    "set_endpoint_failed",
    "set_endpoint_health",
    "set_endpoint_running",
    "set_endpoint_stopped",
    "set_job_allocated",
    "set_job_billed",
    "set_job_cancel_requested",
    "set_job_cancelled",
    "set_job_charged",
    "set_job_completed",
    "set_job_ended",
    "set_job_failed",
    "set_job_funded",
    "set_job_low_balance",
    "set_job_result_stored",
    "set_job_running",
]
