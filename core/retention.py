"""Retention: which blob may go, by what it is, how old it is and what has become of its job. A pure decision.

What tells why a job failed is kept for longer than what a job that went well has left. Nothing of a live job goes, whatever
its age, and nothing that is not known here: models, archives and whatever others keep in the store.

An endpoint may serve for years, and has no end by which its log could be judged: a chunk of that goes by its own age, whether
the endpoint lives or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from attrs import frozen

from ports.blobs import is_input
from ports.units import Span


class Fate(StrEnum):
    """Of the job that a blob belongs to. UNKNOWN: neither an object nor a manifest tells."""

    LIVE = "live"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@frozen
class Retention:
    """How long things are kept after they were written; None: for ever.

    uploads: that no submit has used, and copies of them that belong to no job, since their submit did not get so far.
    completed: inputs, result and logs of jobs that completed. failed: the same of those that failed or were cancelled, the
    manifests and diagnostics of all, and the logs of endpoints.
    """

    uploads: Span | None = Span.of(hours=24)
    completed: Span | None = Span.of(hours=30 * 24)
    failed: Span | None = Span.of(hours=90 * 24)


KEPT = Retention()
OFFERED = Span.of(hours=23)  # an upload older than that is asked for again, lest it be swept before its submit


def job_of(key: str) -> str:
    """The id of the job that the blob at `key` belongs to, or its hash (`ports.blob_keys`); "" if it belongs to none."""
    parts = key.split("/")
    return parts[1] if parts[0] == "jobs" and len(parts) > 2 else ""


def is_endpoint_log(key: str) -> bool:
    """Whether a chunk of an endpoint's log is at `key`."""
    parts = key.split("/")
    return len(parts) == 4 and (parts[0], parts[2]) == ("endpoints", "logs") and len(parts[3]) == 9 and parts[3].isdigit()


def is_output(key: str) -> bool:
    """Whether a job has left it at its end or before: no input."""
    return job_of(key) != "" and _known(key) and not is_input(key.split("/")[2])


def may_go(key: str, age: Span, fate: Fate, kept: Retention) -> bool:
    """fate: of the job it belongs to; of an upload and of an endpoint's log it does not matter."""
    if key.startswith("uploads/"):
        return _over(age, kept.uploads)
    if is_endpoint_log(key):
        return _over(age, kept.failed)
    if not job_of(key) or not _known(key) or fate is Fate.LIVE:
        return False
    if fate is Fate.UNKNOWN and is_input(key.rpartition("/")[2]):
        return _over(age, kept.uploads)
    lasting = key.endswith(("/manifest.json", "/diagnostics.json")) or fate is not Fate.COMPLETED
    return _over(age, kept.failed if lasting else kept.completed)


def part_may_go(age: Span, named: bool, kept: Retention) -> bool:
    """Of a model. named: by its manifest."""
    return not named and _over(age, kept.uploads)


def looked_at(keys: Iterable[str], kept: Retention) -> Span | None:
    """The age from which on it is worth while to ask what has become of the job that all these belong to; None: it never is.

    Where there are only inputs, there may be no such job.
    """
    if not any(is_output(key) for key in keys):
        return kept.uploads
    spans = [span for span in (kept.completed, kept.failed) if span is not None]
    return min(spans) if spans else None


def _known(key: str) -> bool:
    """Whether it has a place in the layout of a job."""
    rest = key.split("/")[2:]
    if len(rest) == 1:
        return rest[0] == "manifest.json" or is_input(rest[0])
    return rest[0].isdigit() and (rest[1] == "logs" or rest[1:] in (["result"], ["traceback.txt"], ["diagnostics.json"]))


def _over(age: Span, span: Span | None) -> bool:
    return span is not None and age > span
