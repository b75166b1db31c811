"""Conditions that follow from the phase, for `kubectl wait --for=condition=Completed`. They are told, never read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adapters.k8s.forms import Form, maybe_time, time_text
from ports.endpoints import Endpoint, EndpointPhase
from ports.units import Instant
from ports.workloads import CHARGED, TERMINAL, Condition, ConditionStatus, Job, Phase

OF_JOBS = frozenset(str(phase) for phase in (Phase.ALLOCATED, Phase.RUNNING, *TERMINAL))
OF_ENDPOINTS = frozenset(str(phase) for phase in EndpointPhase if phase is not EndpointPhase.PENDING)


def forms(stored: Iterable[Condition], told: Iterable[Condition], generation: int) -> list[Form]:
    """Each type once, as Kubernetes wants it; what follows from the phase counts."""
    by_type = {each.type: each for each in (*stored, *told)}
    return [_form(each, generation) for each in by_type.values()]


def _form(each: Condition, generation: int) -> Form:
    return {
        "type": each.type,
        "status": each.status.value,
        "reason": each.reason,
        "message": each.message,
        "lastTransitionTime": time_text(each.at),
        "observedGeneration": generation,
    }


def stored(forms: Iterable[Form], told: frozenset[str]) -> tuple[Condition, ...]:
    """Those that somebody wrote; not those that follow from the phase."""
    return tuple(_of(form) for form in forms if form["type"] not in told)


def _of(form: Form) -> Condition:
    at = maybe_time(form.get("lastTransitionTime"))
    said = form["type"], ConditionStatus(form["status"]), form.get("reason", ""), form.get("message", "")
    return Condition(*said) if at is None else Condition(*said, at)


def of_job(job: Job) -> Iterator[Condition]:
    """Allocated and Running of the newest run, and the end."""
    status, run = job.status, job.status.run
    ended = run.ended_at if run is not None else None
    if run is not None:
        yield _told(Phase.ALLOCATED, status.phase in (Phase.ALLOCATED, Phase.RUNNING), run.booked_at, ended)
        if run.started_at is not None:
            yield _told(Phase.RUNNING, status.phase is Phase.RUNNING, run.started_at, ended)
    if status.phase in TERMINAL:
        charged = status.condition(CHARGED)
        at = charged.at if charged is not None else ended or job.created_at
        yield Condition(str(status.phase), ConditionStatus.TRUE, status.reason or str(status.phase), "", at)


def of_endpoint(endpoint: Endpoint) -> Iterator[Condition]:
    """The phase that it is in, and that it does not run where it once did."""
    status = endpoint.status
    at = {EndpointPhase.RUNNING: status.started_at, EndpointPhase.STOPPED: status.stopped_at}.get(status.phase)
    if status.phase is not EndpointPhase.PENDING:
        yield Condition(str(status.phase), ConditionStatus.TRUE, status.reason or str(status.phase), "", at or endpoint.created_at)
    if status.started_at is not None and status.phase is not EndpointPhase.RUNNING:
        yield Condition(str(EndpointPhase.RUNNING), ConditionStatus.FALSE, str(status.phase), "", status.stopped_at or status.started_at)


def _told(phase: Phase, holds: bool, since: Instant, until: Instant | None) -> Condition:
    if holds:
        return Condition(str(phase), ConditionStatus.TRUE, str(phase), "", since)
    return Condition(str(phase), ConditionStatus.FALSE, "Ended", "", until or since)
