"""How long a job is there and has run, for people.

What the gateway knows of a run's time is measured on its node and comes in steps, as it is billed. While the job runs, its
start until now says more; once it has ended, only what was measured counts. Its credits are always for what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gridweave.progress import elapsed


def since(then: Any, now: datetime) -> float | None:
    """Seconds; None if `then` is no time. Never below 0: two machines' clocks may differ."""
    try:
        return max(0.0, (now - datetime.fromisoformat(str(then))).total_seconds())
    except (ValueError, TypeError):
        return None


def age(job: Mapping[str, Any], now: datetime) -> str:
    """Since it was submitted."""
    seconds = since(job.get("created_at"), now)
    return "" if seconds is None else elapsed(seconds)


def ran(job: Mapping[str, Any], now: datetime) -> str:
    """Of all its attempts; "" if none has run."""
    measured = (job.get("ran_ms") or 0) / 1000
    if job.get("phase") == "Running":
        return elapsed(max(measured, since(job.get("started_at"), now) or 0.0))
    return "" if not measured else f"{measured:.3f} s" if measured < 60 else elapsed(measured)


def credited(job: Mapping[str, Any]) -> str:
    """The running time that a running job's credits are for; "" for others, whose credits are for all of it."""
    if job.get("phase") != "Running" or not job.get("charged"):
        return ""
    return elapsed((job.get("ran_ms") or 0) / 1000)
