"""The manifest: what a reader of the bucket alone needs to tell what happened to a job. Schema 1."""

from __future__ import annotations

import json

from ports.blobs import job_prefix
from ports.units import Instant
from ports.wire import converter
from ports.workloads import Job

MANIFEST_SCHEMA = 1


def manifest_key(job_id: str) -> str:
    return f"{job_prefix(job_id)}manifest.json"


def manifest(job: Job, now: Instant) -> bytes:
    """JSON with sorted keys; times are milliseconds since 1970 in UTC, `ran` milliseconds, money micro-credits."""
    status = job.status
    run = status.run
    content = {
        "schema": MANIFEST_SCHEMA,
        "id": job.id,
        "uid": job.uid,
        "user": job.spec.user,
        "name": job.spec.name,
        "phase": str(status.outcome or status.phase),
        "reason": status.reason,
        "message": status.message,
        "attempt": status.attempt,
        "created_at": job.created_at.ms,
        "started_at": run.started_at.ms if run is not None and run.started_at is not None else None,
        "ended_at": run.ended_at.ms if run is not None and run.ended_at is not None else None,
        "written_at": now.ms,
        "ran": run.ran.ms if run is not None else 0,
        "exit": converter.unstructure(run.exit) if run is not None and run.exit is not None else None,
        "placement": converter.unstructure(run.placement) if run is not None else [],
        "result": converter.unstructure(status.result) if status.result is not None else None,
        "charged": status.charged.micro,
        "versions": {"python": job.spec.python, "cloudpickle": job.spec.cloudpickle},
        "inputs": {"function": converter.unstructure(job.spec.function), "args": converter.unstructure(job.spec.args)},
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
