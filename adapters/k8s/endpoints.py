"""Endpoints as Kubernetes objects: the spec by its generation, the status through its subresource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import evolve

from adapters.k8s import conditions, names
from adapters.k8s.client import API_VERSION, KubeClient
from adapters.k8s.forms import Form, check_size, maybe_time, original, sendable, time_of, time_text, without_none
from adapters.k8s.mapping import LARGEST_NEW, ask_form, ask_of, job_key
from adapters.k8s.objects import Objects
from adapters.k8s.unread import Unread
from ports.endpoints import SCHEMA, Endpoint, EndpointMode, EndpointPhase, EndpointSpec, EndpointStatus, check_endpoint_transition
from ports.errors import Conflict, Unreadable
from ports.units import Credits
from ports.workloads import JobFilter, checked_id

PLURAL = "gridweaveendpoints"
KIND = "GridweaveEndpoint"


class KubeEndpoints:
    """`ports.endpoints.Endpoints`."""

    def __init__(self, client: KubeClient) -> None:
        self._namespace = client.namespace
        self._objects = Objects(client, PLURAL)
        self._unread = Unread(KIND)

    def create(self, endpoint: Endpoint) -> Endpoint:
        meta = {
            "labels": names.labels(endpoint.spec.user, endpoint.spec.name, endpoint.spec.labels),
            "annotations": sendable({names.ID: endpoint.id, names.USER: endpoint.spec.user, names.NAME: endpoint.spec.name}),
        }
        form = self._object(endpoint, meta, spec=_spec_form(endpoint))
        check_size(f"endpoint {endpoint.id!r:.60}", form, LARGEST_NEW)
        return endpoint_of(self._objects.create(checked_id(endpoint.id), form))

    def get(self, endpoint_id: str) -> Endpoint | None:
        found = self._objects.get(endpoint_id, names.object_name(endpoint_id))
        return None if found is None or job_key(found["metadata"]) != endpoint_id else endpoint_of(found)

    def list(self, labels: Mapping[str, str]) -> tuple[Endpoint, ...]:
        def fold(forms: Iterator[Form]) -> list[Endpoint]:
            return [found for form in forms if (found := self._unread.skipping(form, endpoint_of)) is not None]

        found, _ = self._objects.read(fold, names.selector(JobFilter(labels=dict(labels))))
        fitting = (each for each in found if labels.items() <= each.spec.labels.items())
        return tuple(sorted(fitting, key=lambda each: (each.created_at.ms, each.id)))

    def replace(self, endpoint: Endpoint) -> Endpoint:
        fresh = self.get(endpoint.id)
        if fresh is None or fresh.version != endpoint.version:
            raise Conflict(endpoint.id)
        check_endpoint_transition(fresh, endpoint)
        meta = {"resourceVersion": endpoint.version, "uid": endpoint.uid}
        form = self._object(endpoint, meta, status=_status_form(endpoint))
        check_size(f"endpoint {endpoint.id!r:.60}", form)
        return endpoint_of(self._objects.replace_status(endpoint.id, form))

    def delete(self, endpoint: Endpoint) -> None:
        if not endpoint.version:
            raise Conflict(endpoint.id)
        self._objects.delete(endpoint.id, names.object_name(endpoint.id), endpoint.uid, endpoint.version)

    def _object(self, endpoint: Endpoint, meta: Form, **halves: Form) -> Form:
        name = {"name": names.object_name(endpoint.id), "namespace": self._namespace}
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {**name, **meta}, **halves}


def endpoint_of(form: Form) -> Endpoint:
    """Raises Unreadable if it was written by a newer release or can't be read."""
    meta = form["metadata"]
    try:
        spec, status = original(form["spec"]), original(form.get("status") or {})
        schema = max(spec.get("schemaVersion", 1), status.get("schemaVersion", 1))
        if schema > SCHEMA:
            raise Unreadable("a stored endpoint", f"a newer release wrote {meta['name']} (schema {schema}); this one knows up to {SCHEMA}")
        created = time_of(spec.get("createdAt") or meta["creationTimestamp"])
        found = Endpoint(job_key(meta), meta["uid"], created, _spec(spec))
        return evolve(found, status=_status(status), generation=meta["generation"], version=meta["resourceVersion"], schema=schema)
    except Unreadable:
        raise
    except Exception as error:  # whatever a form that somebody wrote by hand makes us raise
        raise Unreadable("a stored endpoint", f"object {meta['name']} can't be read: {type(error).__name__}: {error}"[:300]) from error


def _spec_form(endpoint: Endpoint) -> Form:
    spec = endpoint.spec
    ask = {key: value for key, value in ask_form(spec.ask).items() if key != "workers"}
    form = {
        "schemaVersion": endpoint.schema,
        "createdAt": time_text(endpoint.created_at),
        "user": spec.user,
        "plan": spec.plan,
        "name": spec.name,
        "model": spec.model,
        "image": spec.image,
        "mode": spec.mode.value,
        "pricing": None if spec.per_call is None else {"perCall": spec.per_call.micro},
        "replicas": spec.replicas,
        **ask,
        "labels": spec.labels,
    }
    made: Form = sendable(without_none(form))
    return made


def _spec(form: Form) -> EndpointSpec:
    per_call = form.get("pricing", {}).get("perCall")
    return EndpointSpec(
        user=form["user"],
        name=form["name"],
        ask=ask_of(form),
        model=form.get("model"),
        image=form.get("image"),
        mode=EndpointMode(form.get("mode", "free")),
        plan=form.get("plan", "free"),
        per_call=None if per_call is None else Credits(per_call),
        replicas=form.get("replicas", 1),
        labels=dict(form.get("labels", {})),
    )


def _status_form(endpoint: Endpoint) -> Form:
    status = endpoint.status
    times = (("checkedAt", status.checked_at), ("startedAt", status.started_at), ("stoppedAt", status.stopped_at))
    form = {
        "schemaVersion": endpoint.schema,
        "observedGeneration": status.generation,
        "phase": status.phase.value,
        "attempt": status.attempt,
        "url": status.url,
        "healthyReplicas": status.healthy,
        "perCall": None if status.per_call is None else status.per_call.micro,
        "reason": status.reason,
        "message": status.message,
        "conditions": conditions.forms(status.conditions, conditions.of_endpoint(endpoint), endpoint.generation),
        **{name: None if at is None else time_text(at) for name, at in times},
    }
    made: Form = sendable(without_none(form))
    return made


def _status(form: Form) -> EndpointStatus:
    per_call = form.get("perCall")
    return EndpointStatus(
        phase=EndpointPhase(form.get("phase", "Pending")),
        attempt=form.get("attempt", 0),
        url=form.get("url", ""),
        healthy=form.get("healthyReplicas", 0),
        per_call=None if per_call is None else Credits(per_call),
        conditions=conditions.stored(form.get("conditions", ()), conditions.OF_ENDPOINTS),
        checked_at=maybe_time(form.get("checkedAt")),
        started_at=maybe_time(form.get("startedAt")),
        stopped_at=maybe_time(form.get("stoppedAt")),
        reason=form.get("reason", ""),
        message=form.get("message", ""),
        generation=form.get("observedGeneration", 0),
    )
