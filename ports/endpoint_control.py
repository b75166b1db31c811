"""The controller library of endpoints: typed setters, so that no caller writes a status by hand.

A setter reads the object, decides by the phase table, writes by compare-and-swap, and on a conflict decides anew.
Doing it twice is doing it once. What is not allowed raises IllegalTransition, what is not there NotFound. Time comes
in as a function and the store as a port, so that the same rules hold on every transport.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from attrs import evolve, frozen

from ports.endpoints import HEALTHY, Endpoint, EndpointMode, EndpointPhase, Endpoints, EndpointSpec, EndpointStatus
from ports.errors import Conflict, IllegalTransition, Invalid, NotFound, Unavailable
from ports.selectors import parse_selector
from ports.units import Credits, Instant, Mib
from ports.workloads import Ask, ConditionStatus

TRIES = 20


@frozen
class EndpointControl:
    """now: the time, for records. Every method raises Unavailable when the store does not answer."""

    endpoints: Endpoints
    now: Callable[[], Instant]

    def create_endpoint(
        self,
        endpoint_id: str,
        user_id: str,
        *,
        model: str | None = None,
        image: str | None = None,
        name: str = "",
        mode: str = "free",
        per_call: Credits | None = None,
        replicas: int = 1,
        vram: Mib | str = "1GB",
        gpus: int = 1,
        gpu_model: str | None = None,
        vendor: str | None = None,
        owner: str | None = None,
        exclusive: bool = False,
        plan: str = "free",
        labels: Mapping[str, str] | None = None,
    ) -> Endpoint:
        """Pending. Raises AlreadyExists, or Invalid."""
        if (model is None) == (image is None):
            raise Invalid("An endpoint has either a model or an image.", "model", "Give one of the two.", str(model))
        if mode not in tuple(EndpointMode):
            raise Invalid(f"There is no mode {mode!r:.60}.", "mode", f"Give one of {', '.join(EndpointMode)}.", mode)
        if replicas < 0 or gpus < 1:
            raise Invalid("Replicas can't be below 0, nor GPUs below 1.", "replicas", "Give 0 or more.", f"{replicas}, {gpus}")
        ask = Ask(vram if isinstance(vram, Mib) else Mib.parse(vram), gpus, 1, gpu_model, vendor, owner, exclusive)
        spec = EndpointSpec(
            user_id, name or endpoint_id, ask, model, image, EndpointMode(mode), plan, per_call, replicas, dict(labels or {})
        )
        return self.endpoints.create(Endpoint(endpoint_id, endpoint_id, self.now(), spec))

    def get_endpoint(self, endpoint_id: str) -> Endpoint | None:
        return self.endpoints.get(endpoint_id)

    def list_endpoints(self, label_selector: str = "") -> tuple[Endpoint, ...]:
        """As `list_jobs`."""
        return self.endpoints.list(parse_selector(label_selector))

    def delete_endpoint(self, endpoint_id: str) -> None:
        """No error if there is none."""
        for _ in range(TRIES):
            found = self.endpoints.get(endpoint_id)
            if found is None:
                return
            with suppress(Conflict):
                self.endpoints.delete(found)
                return
        raise Unavailable("the endpoint store", f"others write {endpoint_id} all the time", 1)

    def set_endpoint_deploying(self, endpoint_id: str) -> Endpoint:
        """A new attempt of the spec as it is now; a stopped or failed one is started again."""

        def deploying(endpoint: Endpoint) -> EndpointStatus:
            status = endpoint.status
            if status.phase is EndpointPhase.DEPLOYING and status.generation == endpoint.generation:
                return status
            began = evolve(status, attempt=status.attempt + 1, healthy=0, reason="", message="", generation=endpoint.generation)
            return evolve(began, phase=EndpointPhase.DEPLOYING, stopped_at=None)

        def again(endpoint: Endpoint) -> EndpointStatus:
            restarts = endpoint.status.phase in (EndpointPhase.STOPPED, EndpointPhase.FAILED)
            return evolve(endpoint.status, phase=EndpointPhase.PENDING) if restarts else endpoint.status

        self._endpoint(endpoint_id, again)
        return self._endpoint(endpoint_id, deploying)

    def set_endpoint_running(self, endpoint_id: str, *, url: str = "", per_call: Credits | None = None) -> Endpoint:
        """It has passed its health gate, from Deploying."""

        def running(endpoint: Endpoint) -> EndpointStatus:
            status = endpoint.status
            if status.phase is EndpointPhase.RUNNING:
                return evolve(status, url=url or status.url, per_call=per_call if per_call is not None else status.per_call)
            if status.phase is not EndpointPhase.DEPLOYING:
                raise IllegalTransition(endpoint.id, str(status.phase), str(EndpointPhase.RUNNING))
            began = evolve(status, phase=EndpointPhase.RUNNING, url=url, per_call=per_call, started_at=self.now(), reason="", message="")
            return began.with_condition(HEALTHY, ConditionStatus.TRUE, self.now(), "Answers")

        return self._endpoint(endpoint_id, running)

    def set_endpoint_stopped(self, endpoint_id: str, *, reason: str = "Stopped", message: str = "") -> Endpoint:
        return self._over(endpoint_id, EndpointPhase.STOPPED, reason, message)

    def set_endpoint_failed(self, endpoint_id: str, *, reason: str = "Failed", message: str = "") -> Endpoint:
        return self._over(endpoint_id, EndpointPhase.FAILED, reason, message)

    def set_endpoint_health(self, endpoint_id: str, *, healthy: int, message: str = "") -> Endpoint:
        """healthy: replicas that answered just now."""

        def checked(endpoint: Endpoint) -> EndpointStatus:
            well = healthy >= endpoint.spec.replicas
            status = ConditionStatus.TRUE if well else ConditionStatus.FALSE
            told = endpoint.status.with_condition(HEALTHY, status, self.now(), "Answers" if well else "Silent", message)
            return evolve(told, healthy=healthy, checked_at=self.now())

        return self._endpoint(endpoint_id, checked)

    def _over(self, endpoint_id: str, phase: EndpointPhase, reason: str, message: str) -> Endpoint:
        def over(endpoint: Endpoint) -> EndpointStatus:
            if endpoint.status.phase is phase:
                return endpoint.status
            ended = evolve(endpoint.status, phase=phase, healthy=0, url="", stopped_at=self.now(), reason=reason, message=message)
            return ended.with_condition(HEALTHY, ConditionStatus.FALSE, self.now(), reason)

        return self._endpoint(endpoint_id, over)

    def _endpoint(self, endpoint_id: str, decide: Callable[[Endpoint], EndpointStatus]) -> Endpoint:
        for _ in range(TRIES):
            found = self.endpoints.get(endpoint_id)
            if found is None:
                raise NotFound(f"There is no endpoint {endpoint_id!r:.80}.", "endpoint_id", "Create it first.")
            status = decide(found)
            if status == found.status:
                return found
            try:
                return self.endpoints.replace(evolve(found, status=status))
            except Conflict:
                continue
        raise Unavailable("the endpoint store", f"others write {endpoint_id} all the time", 1)
