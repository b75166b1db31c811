"""A job as an object of Kubernetes, and back. Lossless: what was stored is read with every field.

The status of a new object can't be sent with it, so it travels as an annotation and counts until the first status is
written: an object is whole from its creation on. One made by hand has neither; it waits for its funding.
"""

from __future__ import annotations

import contextlib
import json

from attrs import evolve

from adapters.k8s import conditions, names
from adapters.k8s.client import API_VERSION
from adapters.k8s.forms import Form, check_size, mark, maybe_time, original, sendable, time_of, time_text, without_none
from ports.errors import Unreadable
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import (
    FUNDED,
    SCHEMA,
    Ask,
    BlobRef,
    ConditionStatus,
    Environment,
    Exit,
    ExitKind,
    Job,
    JobSpec,
    JobStatus,
    Phase,
    Placement,
    Result,
    Run,
    RunId,
    RunState,
    Slot,
    is_id,
)

KIND = "GridweaveJob"
LARGEST_NEW = 900_000  # bytes of a new object: its status must have room to grow

# ---------------------------------------------------------------- whole objects


def job_object(job: Job, namespace: str) -> Form:
    """To be created. Raises Invalid if it is too large or holds what Kubernetes can't."""
    status = sendable(status_form(job, 1))
    made: Form = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": names.object_name(job.id),
            "namespace": namespace,
            "labels": names.labels(job.spec.user, job.spec.name, job.spec.labels),
            "annotations": sendable(
                {
                    names.ID: job.id,
                    names.USER: job.spec.user,
                    names.NAME: job.spec.name,
                    names.INITIAL: json.dumps(status, separators=(",", ":")),
                }
            ),
            "finalizers": [names.FINALIZER],
        },
        "spec": sendable(spec_form(job)),
    }
    check_size(f"job {job.id!r:.60}", made, LARGEST_NEW)
    return made


def status_object(job: Job, namespace: str, generation: int = 1) -> Form:
    """To replace the status of that very version."""
    made: Form = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": names.object_name(job.id), "namespace": namespace, "resourceVersion": job.version, "uid": job.uid},
        "status": {**sendable(status_form(job, generation)), "lastWrite": mark()},
    }
    check_size(f"job {job.id!r:.60}", made)
    return made


def job_of(form: Form) -> Job:
    """Raises Unreadable if it was written by a newer release or can't be read."""
    name = form.get("metadata", {}).get("name", "")
    try:
        return _job(form)
    except Unreadable:
        raise
    except Exception as error:  # whatever a form that somebody wrote by hand makes us raise
        raise Unreadable("a stored job", f"object {name} can't be read: {type(error).__name__}: {error}"[:300]) from error


def _job(form: Form) -> Job:
    meta, spec, written = form["metadata"], original(form["spec"]), form.get("status") or {}
    schema = max(spec.get("schemaVersion", 1), written.get("schemaVersion", 1))
    if schema > SCHEMA:
        raise Unreadable("a stored job", f"a newer release wrote {meta['name']} (schema {schema}); this one knows up to {SCHEMA}")
    notes = original(meta.get("annotations") or {})
    key, created = job_key(meta), _created(form)
    if "schemaVersion" in written:
        status = _status(key, original(written))
    else:
        status = _initial(key, notes) or JobStatus().with_condition(FUNDED, ConditionStatus.UNKNOWN, created, "Authorising")
    leaving = is_deleting(form)
    if status.cancel is None and leaving:
        status = _cancelled(status, meta["deletionTimestamp"])
    return Job(key, meta["uid"], created, _spec(spec), status, meta["resourceVersion"], schema, leaving)


def _initial(key: str, notes: Form) -> JobStatus | None:
    """Of a new object; None if there is none, or somebody wrote it by hand: one object must not stop the reading of all."""
    try:
        return _status(key, original(json.loads(notes[names.INITIAL])))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None


def _created(form: Form) -> Instant:
    """As its maker says, if that is a time; Kubernetes takes years that are none to us."""
    given = form["spec"].get("createdAt")
    if given:
        with contextlib.suppress(ValueError):
            return time_of(given)
    return time_of(form["metadata"]["creationTimestamp"])


def job_key(meta: Form) -> str:
    """The id of a workload. One that reads as a run of another is none, whoever has annotated it."""
    key = object_key(meta)
    return key if is_id(key) else str(meta["name"])


def object_key(meta: Form) -> str:
    """The id of an object: its annotation, if its name agrees; else its name."""
    noted = original((meta.get("annotations") or {}).get(names.ID, ""))
    return noted if isinstance(noted, str) and names.object_name(noted) == meta["name"] else str(meta["name"])


def created_key(form: Form) -> tuple[int, str]:
    """Its place in a list, without reading the rest of it."""
    return _created(form).ms, job_key(form["metadata"])


def is_deleting(form: Form) -> bool:
    return bool(form["metadata"].get("deletionTimestamp"))


def _cancelled(status: JobStatus, at: str) -> JobStatus:
    """Whoever deletes the object asks for its end: it goes when all is settled."""
    return evolve(status, cancel=time_of(at))


# ---------------------------------------------------------------- spec


def spec_form(job: Job) -> Form:
    spec = job.spec
    return without_none(
        {
            "schemaVersion": job.schema,
            "createdAt": time_text(job.created_at),
            "user": spec.user,
            "plan": spec.plan,
            "name": spec.name,
            **ask_form(spec.ask),
            "functionRef": _blob_form(spec.function),
            "argsRef": _blob_form(spec.args),
            "codeRef": _blob_form(spec.code),
            "env": without_none(
                {
                    "pip": list(spec.env.pip),
                    "uv": list(spec.env.uv),
                    "variables": spec.env.env_vars,
                    "workingDirRef": _blob_form(spec.env.working_dir),
                }
            ),
            "limits": _limits_form(spec),
            "labels": spec.labels,
            "client": {"python": spec.python, "cloudpickle": spec.cloudpickle},
            "bodySha256": spec.body_sha256,
            "hold": spec.hold.micro,
            "billed": spec.billed,
        }
    )


def ask_form(ask: Ask) -> Form:
    return {
        "vram": ask.mib.n,
        "gpus": ask.gpus,
        "workers": ask.workers,
        "gpuModel": ask.model,
        "vendor": ask.vendor,
        "owner": ask.owner,
        "exclusive": ask.exclusive,
    }


def ask_of(form: Form) -> Ask:
    return Ask(
        Mib(form["vram"]),
        form.get("gpus", 1),
        form.get("workers", 1),
        form.get("gpuModel"),
        form.get("vendor"),
        form.get("owner"),
        form.get("exclusive", False),
    )


def _spec(form: Form) -> JobSpec:
    env, client, limits = form.get("env", {}), form.get("client", {}), form.get("limits", {})
    return JobSpec(
        user=form["user"],
        plan=form.get("plan", "free"),
        name=form["name"],
        ask=ask_of(form),
        function=_some_blob(form["functionRef"]),
        args=_some_blob(form["argsRef"]),
        code=_blob(form.get("codeRef")),
        env=Environment(
            tuple(env.get("pip", ())), tuple(env.get("uv", ())), dict(env.get("variables", {})), _blob(env.get("workingDirRef"))
        ),
        max_runtime=Span(limits["maxRuntimeMs"]) if "maxRuntimeMs" in limits else None,
        labels=dict(form.get("labels", {})),
        python=client.get("python", ""),
        cloudpickle=client.get("cloudpickle", ""),
        body_sha256=form.get("bodySha256", ""),
        hold=Credits(form.get("hold", 0)),
        billed=form.get("billed", True),
        cap=Credits(limits["maxCost"]) if "maxCost" in limits else None,
    )


def _limits_form(spec: JobSpec) -> Form | None:
    found = {
        "maxRuntimeMs": None if spec.max_runtime is None else spec.max_runtime.ms,
        "maxCost": None if spec.cap is None else spec.cap.micro,
    }
    return without_none(found) or None


def _blob_form(blob: BlobRef | None) -> Form | None:
    return None if blob is None else {"sha256": blob.sha256, "size": blob.size}


def _some_blob(form: Form) -> BlobRef:
    return BlobRef(form["sha256"], form["size"])


def _blob(form: Form | None) -> BlobRef | None:
    return None if form is None else _some_blob(form)


# ---------------------------------------------------------------- status


def status_form(job: Job, generation: int) -> Form:
    """With the flat fields that sum the runs up, for people and printer columns."""
    status, run = job.status, job.status.run
    ran = sum(each.ran.ms for each in status.runs)
    result = status.result
    return without_none(
        {
            "schemaVersion": job.schema,
            "observedGeneration": generation,
            "phase": status.phase.value,
            "attempt": status.attempt,
            "placement": None if run is None else _placement_form(run.placement),
            "where": None if run is None else where(run.placement),
            "startedAt": None if run is None or run.started_at is None else time_text(run.started_at),
            "finishedAt": None if run is None or run.ended_at is None else time_text(run.ended_at),
            "ranMs": ran,
            "billedSeconds": ran // 1000 if job.spec.billed else 0,
            "waiting": status.waiting,
            "position": status.position,
            "cancelRequestedAt": None if status.cancel is None else time_text(status.cancel),
            "outcome": None if status.outcome is None else status.outcome.value,
            "reason": status.reason,
            "message": status.message,
            "result": None
            if result is None
            else {"key": result.key, "size": result.size, "sha256": result.sha256, "raised": result.raised},
            "charged": status.charged.micro,
            "conditions": conditions.forms(status.conditions, conditions.of_job(job), generation),
            "runs": [_run_form(each) for each in status.runs],
        }
    )


def _status(key: str, form: Form) -> JobStatus:
    outcome, result = form.get("outcome"), form.get("result")
    return JobStatus(
        phase=Phase(form["phase"]),
        attempt=form.get("attempt", 0),
        runs=tuple(_run(key, each) for each in form.get("runs", ())),
        conditions=conditions.stored(form.get("conditions", ()), conditions.OF_JOBS),
        waiting=form.get("waiting", ""),
        position=form.get("position", 0),
        cancel=maybe_time(form.get("cancelRequestedAt")),
        outcome=None if outcome is None else Phase(outcome),
        reason=form.get("reason", ""),
        message=form.get("message", ""),
        result=None if result is None else Result(result["key"], result["size"], result["sha256"], result.get("raised", False)),
        charged=Credits(form.get("charged", 0)),
    )


def _run_form(run: Run) -> Form:
    return without_none(
        {
            "run": str(run.id.attempt) + ("" if run.id.replica is None else f"/{run.id.replica}"),
            "state": run.state.value,
            "placement": _placement_form(run.placement),
            "epoch": run.epoch,
            "price": {
                "tariff": run.price.tariff,
                "lines": [
                    {
                        "owner": line.owner,
                        "numerator": line.rate.numerator,
                        "denominator": line.rate.denominator,
                        "feePpm": line.fee_ppm,
                    }
                    for line in run.price.lines
                ],
            },
            "bookedAt": time_text(run.booked_at),
            "startedAt": None if run.started_at is None else time_text(run.started_at),
            "endedAt": None if run.ended_at is None else time_text(run.ended_at),
            "ranMs": run.ran.ms,
            "exit": None if run.exit is None else _exit_form(run.exit),
        }
    )


def _run(key: str, form: Form) -> Run:
    attempt, _, replica = form["run"].partition("/")
    price, exit_ = form["price"], form.get("exit")
    lines = tuple(
        PriceLine(line["owner"], Rate(line["numerator"], line["denominator"]), line.get("feePpm", 0)) for line in price.get("lines", ())
    )
    return Run(
        id=RunId(key, int(attempt), int(replica) if replica else None),
        state=RunState(form["state"]),
        placement=_placement(form["placement"]),
        epoch=form["epoch"],
        price=Price(price["tariff"], lines),
        booked_at=time_of(form["bookedAt"]),
        started_at=maybe_time(form.get("startedAt")),
        ended_at=maybe_time(form.get("endedAt")),
        ran=Span(form.get("ranMs", 0)),
        exit=None if exit_ is None else _exit(exit_),
    )


def _exit_form(how: Exit) -> Form:
    return without_none(
        {
            "kind": how.kind.value,
            "code": how.code,
            "signal": how.signal,
            "oom": how.oom,
            "message": how.message,
            "traceback": how.traceback,
            "logTail": how.log_tail,
        }
    )


def _exit(form: Form) -> Exit:
    return Exit(
        kind=ExitKind(form["kind"]),
        code=form.get("code"),
        signal=form.get("signal", ""),
        oom=form.get("oom", False),
        message=form.get("message", ""),
        traceback=form.get("traceback", ""),
        log_tail=form.get("logTail", ""),
    )


def _placement_form(placement: Placement) -> list[Form]:
    return [{"node": slot.node, "gpu": slot.gpu, "mib": slot.mib.n} for slot in placement]


def where(placement: Placement) -> str:
    """For people: "n1:0,3 n2:1"."""
    nodes = dict.fromkeys(slot.node for slot in placement)
    return " ".join(f"{node}:{','.join(str(slot.gpu) for slot in placement if slot.node == node)}" for node in nodes)


def _placement(form: list[Form]) -> Placement:
    return tuple(Slot(each["node"], each["gpu"], Mib(each["mib"])) for each in form)
