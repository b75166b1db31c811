"""Retention: what may go from the blob store, by age. Nothing that an object refers to is ever swept.

An upload waits for a submit and is then copied to the job's own inputs, so an old one is needed by nobody.
"""

from __future__ import annotations

from core.house import House
from ports.units import Span

UPLOADS_KEPT = Span.of(hours=24)
OFFERED = Span.of(hours=23)  # an upload older than that is asked for again, lest it be swept before its submit


def sweep_uploads(house: House, kept: Span = UPLOADS_KEPT) -> int:
    """Delete uploads older than `kept`; gives how many. Raises Unavailable."""
    now, swept = house.clock.now(), 0
    for info in house.blobs.list("uploads/"):
        if now - info.modified > kept:
            house.blobs.delete(info.key)
            swept += 1
    return swept
