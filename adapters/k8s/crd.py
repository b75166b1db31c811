"""The controller library: jobs and endpoints as Kubernetes objects, by plain functions over CustomObjectsApi.

    from gridweave_controller import crd
    crd.init_k8s_client(namespace="gridweave")
    crd.create_job("job-1", "ada", BlobRef(sha256, size), vram="8GB")
    crd.set_job_allocated("job-1", placement, epoch=7)

Setters own the phase machine and the conditions; attrs objects come out. `adapters.remote.crd` has the same functions
for those who can't reach the Kubernetes API.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from attrs import frozen

from adapters.k8s.client import KubeClient, connect
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.workloads import KubeWorkloads
from ports.endpoint_control import EndpointControl
from ports.functions import bound
from ports.job_control import JobControl
from ports.units import Instant

P = ParamSpec("P")
T = TypeVar("T")


@frozen
class _Library:
    jobs: JobControl
    endpoints: EndpointControl
    close: Callable[[], None]


_lock = threading.Lock()
_current: list[_Library] = []


def init_k8s_client(*, namespace: str = "") -> None:
    """Connect: in a pod by its ServiceAccount, else by kubeconfig; called by the first function if nobody has. Again: anew.

    namespace: of the objects; empty: the pod's own, or that of the kubeconfig's context. Raises Refused if there is no
    configuration.
    """
    use(connect(namespace))


def use(client: KubeClient) -> None:
    """Take that connection; it is closed when another one is taken."""
    workloads = KubeWorkloads(client)

    def close() -> None:
        workloads.close()
        client.close()

    with _lock:
        former, _current[:] = list(_current), [_Library(JobControl(workloads, _now), EndpointControl(KubeEndpoints(client), _now), close)]
    for each in former:
        each.close()


def close() -> None:
    """Let go of the connection; the next function makes another."""
    with _lock:
        former, _current[:] = list(_current), []
    for each in former:
        each.close()


def _now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)


def _library() -> _Library:
    while not _current:
        init_k8s_client()
    return _current[0]


def _of_jobs(method: Callable[Concatenate[JobControl, P], T]) -> Callable[P, T]:
    return bound(method, lambda: _library().jobs, __name__)


def _of_endpoints(method: Callable[Concatenate[EndpointControl, P], T]) -> Callable[P, T]:
    return bound(method, lambda: _library().endpoints, __name__)


create_job = _of_jobs(JobControl.create_job)
get_job = _of_jobs(JobControl.get_job)
list_jobs = _of_jobs(JobControl.list_jobs)
delete_job = _of_jobs(JobControl.delete_job)
set_job_funded = _of_jobs(JobControl.set_job_funded)
set_job_cancel_requested = _of_jobs(JobControl.set_job_cancel_requested)
set_job_allocated = _of_jobs(JobControl.set_job_allocated)
set_job_running = _of_jobs(JobControl.set_job_running)
set_job_ended = _of_jobs(JobControl.set_job_ended)
set_job_result_stored = _of_jobs(JobControl.set_job_result_stored)
set_job_charged = _of_jobs(JobControl.set_job_charged)
set_job_billed = _of_jobs(JobControl.set_job_billed)
set_job_low_balance = _of_jobs(JobControl.set_job_low_balance)
set_job_completed = _of_jobs(JobControl.set_job_completed)
set_job_failed = _of_jobs(JobControl.set_job_failed)
set_job_cancelled = _of_jobs(JobControl.set_job_cancelled)

create_endpoint = _of_endpoints(EndpointControl.create_endpoint)
get_endpoint = _of_endpoints(EndpointControl.get_endpoint)
list_endpoints = _of_endpoints(EndpointControl.list_endpoints)
delete_endpoint = _of_endpoints(EndpointControl.delete_endpoint)
set_endpoint_deploying = _of_endpoints(EndpointControl.set_endpoint_deploying)
set_endpoint_running = _of_endpoints(EndpointControl.set_endpoint_running)
set_endpoint_stopped = _of_endpoints(EndpointControl.set_endpoint_stopped)
set_endpoint_failed = _of_endpoints(EndpointControl.set_endpoint_failed)
set_endpoint_health = _of_endpoints(EndpointControl.set_endpoint_health)

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
