"""The controller library in memory, for tests of those who use it: the same functions and rules, and no Kubernetes.

    monkeypatch.setattr(mine, "crd", mock_crd)

`init_k8s_client` begins with nothing stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from attrs import evolve, frozen

from ports.endpoint_control import EndpointControl
from ports.errors import Conflict
from ports.functions import bound
from ports.job_control import JobControl
from ports.units import Instant
from ports.workloads import TERMINAL, Job
from tests.memory.endpoints import MemoryEndpoints
from tests.memory.workloads import MemoryWorkloads

P = ParamSpec("P")
T = TypeVar("T")


class DismissableMemory(MemoryWorkloads):
    """`ports.job_control.DismissableWorkloads`."""

    def __init__(self, now: Callable[[], Instant]) -> None:
        super().__init__()
        self._now = now
        self._dismissed: set[str] = set()  # uids
        self._uids = 0
        self._guard = threading.Lock()

    def create(self, job: Job) -> Job:
        with self._guard:
            self._uids += 1
            return super().create(evolve(job, uid=f"uid-{self._uids}"))

    def replace(self, job: Job) -> Job:
        stored = super().replace(job)
        if stored.status.phase in TERMINAL and stored.uid in self._dismissed:
            self.delete(stored)
        return stored

    def dismiss(self, job: Job) -> None:
        while (found := self.get(job.id)) is not None and found.uid == job.uid:
            try:
                if found.status.phase in TERMINAL:
                    self.delete(found)
                else:
                    self._dismissed.add(found.uid)
                    if found.status.cancel is None:
                        self.replace(evolve(found, status=evolve(found.status, cancel=self._now())))
                return
            except Conflict:
                continue


@frozen
class _Library:
    jobs: JobControl
    endpoints: EndpointControl


def _now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)


_current: list[_Library] = []


def init_k8s_client(*, namespace: str = "") -> None:
    """Begin with nothing stored."""
    _current[:] = [_Library(JobControl(DismissableMemory(_now), _now), EndpointControl(MemoryEndpoints(), _now))]


def _library() -> _Library:
    if not _current:
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
