"""Node records as Kubernetes objects: the operator's half is the spec, the scheduler's the status subresource."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from adapters.k8s import names
from adapters.k8s.client import API_VERSION, KubeClient
from adapters.k8s.forms import Form, check_size, mark, original, sendable, without_none
from adapters.k8s.mapping import object_key
from adapters.k8s.objects import Objects
from adapters.k8s.unread import Unread
from ports.errors import Conflict, Unreadable
from ports.nodes import Gpu, NodeRecord, NodeSpec, NodeState, NodeStatus, Quarantine
from ports.units import Mib, Span

PLURAL = "gridweavenodes"
KIND = "GridweaveNode"
SCHEMA = 1


class KubeNodes:
    """`ports.nodes.NodeRecords`. The version is the object's resourceVersion, one for both halves."""

    def __init__(self, client: KubeClient) -> None:
        self._namespace = client.namespace
        self._objects = Objects(client, PLURAL)
        self._unread = Unread(KIND)

    def get(self, name: str) -> NodeRecord | None:
        found = self._objects.get(name, names.object_name(name))
        return None if found is None else self._known(found)

    def list(self) -> tuple[NodeRecord, ...]:
        def fold(forms: Iterator[Form]) -> list[NodeRecord]:
            return [self._known(form) for form in forms]

        return tuple(sorted(self._objects.read(fold)[0], key=lambda record: record.name))

    def put_spec(self, record: NodeRecord) -> NodeRecord:
        _check(record)
        form = self._object(record, spec=_spec_form(record.spec))
        return _record(self._objects.replace(record.name, form) if record.version else self._objects.create(record.name, form))

    def put_status(self, record: NodeRecord) -> NodeRecord:
        _check(record)
        if not record.version:
            made = _record(self._objects.create(record.name, self._object(record, spec=_spec_form(NodeSpec()))))
            record = evolve(record, version=made.version)
        return _record(self._objects.replace_status(record.name, self._object(record, status=_status_form(record.status))))

    def delete(self, name: str) -> None:
        try:
            self._objects.delete(name, names.object_name(name))
        except Conflict:
            return  # there is none

    def _known(self, form: Form) -> NodeRecord:
        """A node whose record can't be read is there all the same: it must get no work by what is not known of it."""
        found = self._unread.skipping(form, _record)
        if found is not None:
            return found
        meta, why = form["metadata"], "Its record can't be read: a newer release wrote it, or it is damaged."
        return NodeRecord(object_key(meta), NodeSpec(drain=True), NodeStatus(NodeState.UNFIT, why), meta["resourceVersion"], why)

    def _object(self, record: NodeRecord, **halves: Form) -> Form:
        meta = without_none(
            {
                "name": names.object_name(record.name),
                "namespace": self._namespace,
                "annotations": sendable({names.ID: record.name, names.WRITE: mark()}),
                "resourceVersion": record.version or None,
            }
        )
        form = {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, **halves}
        check_size(f"node {record.name!r:.60}", form)
        return form


def _check(record: NodeRecord) -> None:
    if record.unreadable:
        raise Unreadable(f"the record of {record.name}", record.unreadable)


def _spec_form(spec: NodeSpec) -> Form:
    form: Form = sendable({"schemaVersion": SCHEMA, "owner": spec.owner, "drain": spec.drain, "gone": spec.gone})
    return form


def _status_form(status: NodeStatus) -> Form:
    form: Form = sendable(
        {
            "schemaVersion": SCHEMA,
            "lastWrite": mark(),
            "state": status.state.value,
            "reason": status.reason,
            "owner": status.owner,
            "agent": status.agent,
            "epoch": status.epoch,
            "python": status.python,
            "cloudpickle": status.cloudpickle,
            "gpus": [
                {"index": gpu.index, "model": gpu.model, "vendor": gpu.vendor, "totalMib": gpu.total.n, "uuid": gpu.uuid}
                for gpu in status.gpus
            ],
            "quarantine": [{"run": each.run, "gpu": each.gpu, "mib": each.mib.n} for each in status.quarantine],
            "ranMs": {run: ran.ms for run, ran in status.ran.items()},
        }
    )
    return form


def _record(form: Form) -> NodeRecord:
    meta, spec, status = form["metadata"], original(form.get("spec") or {}), original(form.get("status") or {})
    if max(spec.get("schemaVersion", 1), status.get("schemaVersion", 1)) > SCHEMA:
        raise Unreadable("a node record", f"a newer release wrote {meta['name']}; this one knows up to schema {SCHEMA}")
    try:
        wanted = NodeSpec(spec.get("owner", ""), spec.get("drain", False), spec.get("gone", False))
        return NodeRecord(object_key(meta), wanted, _status(status), meta["resourceVersion"])
    except (KeyError, ValueError, TypeError) as error:
        raise Unreadable("a node record", f"object {meta['name']} can't be read: {type(error).__name__}: {error}"[:200]) from error


def _status(form: Form) -> NodeStatus:
    plain = NodeStatus()
    return NodeStatus(
        state=NodeState(form.get("state", plain.state)),
        reason=form.get("reason", ""),
        owner=form.get("owner", ""),
        gpus=tuple(
            Gpu(each["index"], each["model"], each["vendor"], Mib(each["totalMib"]), each.get("uuid", "")) for each in form.get("gpus", ())
        ),
        agent=form.get("agent", ""),
        epoch=form.get("epoch", 0),
        python=form.get("python", ""),
        cloudpickle=form.get("cloudpickle", ""),
        quarantine=tuple(Quarantine(each["run"], each["gpu"], Mib(each["mib"])) for each in form.get("quarantine", ())),
        ran={run: Span(ran) for run, ran in form.get("ranMs", {}).items()},
    )
