"""Diagnostics of a job that did not complete, for whoever has nothing but the bucket. Schema 1.

All that is known when the job is closed: its runs and how each ended, the last lines, and what its nodes were like then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ports.blobs import run_prefix
from ports.nodes import NodeRecord
from ports.units import Instant
from ports.wire import converter
from ports.workloads import Job

DIAGNOSTICS_SCHEMA = 1


def diagnostics_key(job: Job) -> str:
    """Beside what the attempt that counts has left."""
    return f"{run_prefix(job.id, job.status.attempt)}diagnostics.json"


def diagnostics(job: Job, nodes: Sequence[NodeRecord], now: Instant) -> bytes:
    """JSON with sorted keys and the units of the manifest. No environment value of the user is in it, and no argument."""
    status = job.status
    content = {
        "schema": DIAGNOSTICS_SCHEMA,
        "id": job.id,
        "attempt": status.attempt,
        "phase": str(status.outcome or status.phase),
        "reason": status.reason,
        "message": status.message,
        "written_at": now.ms,
        "ask": converter.unstructure(job.spec.ask),
        "runs": [
            {
                "run": str(run.id),
                "state": str(run.state),
                "placement": converter.unstructure(run.placement),
                "booked_at": run.booked_at.ms,
                "started_at": run.started_at.ms if run.started_at is not None else None,
                "ended_at": run.ended_at.ms if run.ended_at is not None else None,
                "ran": run.ran.ms,
                "exit": converter.unstructure(run.exit) if run.exit is not None else None,
            }
            for run in status.runs
        ],
        "conditions": converter.unstructure(status.conditions),
        "nodes": [
            {
                "name": node.name,
                "state": str(node.status.state),
                "reason": node.status.reason,
                "owner": node.status.owner,
                "gpus": converter.unstructure(node.status.gpus),
                "python": node.status.python,
                "cloudpickle": node.status.cloudpickle,
            }
            for node in nodes
        ],
    }
    return json.dumps(content, sort_keys=True, ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")
