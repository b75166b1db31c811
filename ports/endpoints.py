"""Endpoints as they are stored: what is to be served, what became of it, the phase table, and the store's Protocol.

A spec is versioned: a change of it is deployed anew. The table of phases is data, and every store enforces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from attrs import evolve, field, frozen

from ports.errors import IllegalTransition
from ports.units import Credits, Instant
from ports.workloads import Ask, Condition, ConditionStatus

SCHEMA = 1  # of the stored form


class EndpointMode(StrEnum):
    FREE = "free"  # callers pay nothing, the deployer pays the hours
    PAID = "paid"  # callers pay per call and the deployer earns; he pays the hours
    SELF_HOST = "self_host"  # on his own hardware: nobody pays


class EndpointPhase(StrEnum):
    PENDING = "Pending"  # waits: for its funding, then for room
    DEPLOYING = "Deploying"  # booked; its replicas are being started and checked
    RUNNING = "Running"
    STOPPED = "Stopped"  # by its user; it may be started again
    FAILED = "Failed"


ENDPOINT_TRANSITIONS: dict[EndpointPhase, frozenset[EndpointPhase]] = {
    EndpointPhase.PENDING: frozenset({EndpointPhase.DEPLOYING, EndpointPhase.FAILED, EndpointPhase.STOPPED}),
    EndpointPhase.DEPLOYING: frozenset({EndpointPhase.RUNNING, EndpointPhase.PENDING, EndpointPhase.FAILED, EndpointPhase.STOPPED}),
    EndpointPhase.RUNNING: frozenset({EndpointPhase.DEPLOYING, EndpointPhase.PENDING, EndpointPhase.FAILED, EndpointPhase.STOPPED}),
    EndpointPhase.STOPPED: frozenset({EndpointPhase.PENDING}),
    EndpointPhase.FAILED: frozenset({EndpointPhase.PENDING, EndpointPhase.STOPPED}),
}

HEALTHY = "Healthy"  # True: every replica answers


@frozen
class EndpointSpec:
    """model or image: exactly one of them. per_call: with mode paid; None: measured at deployment. replicas: engines."""

    user: str
    name: str
    ask: Ask
    model: str | None = None
    image: str | None = None
    mode: EndpointMode = EndpointMode.FREE
    plan: str = "free"
    per_call: Credits | None = None
    replicas: int = 1
    labels: dict[str, str] = field(factory=dict)


@frozen
class EndpointStatus:
    """attempt: of the newest start, 0 before the first. url: where it answers. healthy: replicas that answered when last
    asked, at checked_at. per_call: what a call costs now. generation: of the spec that this is about."""

    phase: EndpointPhase = EndpointPhase.PENDING
    attempt: int = 0
    url: str = ""
    healthy: int = 0
    per_call: Credits | None = None
    conditions: tuple[Condition, ...] = ()
    checked_at: Instant | None = None
    started_at: Instant | None = None
    stopped_at: Instant | None = None
    reason: str = ""
    message: str = ""
    generation: int = 0

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.conditions if each.type == kind), None)

    def with_condition(self, kind: str, status: ConditionStatus, at: Instant, reason: str = "", message: str = "") -> EndpointStatus:
        """The same status with that condition; its time stays if its status does."""
        old = self.condition(kind)
        new = Condition(kind, status, reason, message, old.at if old is not None and old.status is status else at)
        rest = tuple(each for each in self.conditions if each.type != kind)
        return evolve(self, conditions=tuple(sorted((*rest, new), key=lambda each: each.type)))


@frozen
class Endpoint:
    """A stored endpoint. uid: of this very object. generation: of its spec. version: the store's, for compare-and-swap."""

    id: str
    uid: str
    created_at: Instant
    spec: EndpointSpec
    status: EndpointStatus = EndpointStatus()
    generation: int = 1
    version: str = ""
    schema: int = SCHEMA


def check_endpoint_transition(old: Endpoint, new: Endpoint) -> None:
    """Raise IllegalTransition unless the write keeps every rule that no writer may break. Stores call it on replace."""
    was, wanted = old.status, new.status
    if wanted.phase is not was.phase and wanted.phase not in ENDPOINT_TRANSITIONS[was.phase]:
        raise IllegalTransition(old.id, str(was.phase), str(wanted.phase))
    if wanted.attempt < was.attempt:
        raise IllegalTransition(old.id, f"attempt {was.attempt}", f"attempt {wanted.attempt}")
    if (new.spec, new.uid, new.created_at) != (old.spec, old.uid, old.created_at):
        raise IllegalTransition(old.id, "spec", "another spec")


class Endpoints(Protocol):
    """The store of endpoints. Every method raises Unavailable when the store does not answer."""

    def create(self, endpoint: Endpoint) -> Endpoint:
        """Gives it with version, and with a uid of the store's own if it gives one. Raises AlreadyExists, Invalid (`is_id`)."""
        ...

    def get(self, endpoint_id: str) -> Endpoint | None: ...

    def list(self, labels: Mapping[str, str]) -> tuple[Endpoint, ...]:
        """Those that have all these labels, by creation and id."""
        ...

    def replace(self, endpoint: Endpoint) -> Endpoint:
        """Compare-and-swap of the status on `version`. Raises Conflict (also when it is gone) or IllegalTransition."""
        ...

    def delete(self, endpoint: Endpoint) -> None:
        """Delete that version. Raises Conflict if another is stored or none."""
        ...
