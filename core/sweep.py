"""The sweep: carries out what `core.retention` decides. It may be interrupted anywhere, and repeated by anybody at any time.

An upload waits for a submit and is then copied to the job's own inputs, so an old one is needed by nobody. Of a job, the
store's object says what has become of it; where there is none any more, the manifest in the blob store does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby

from attrs import frozen

from core.house import House
from core.models import MODELS, is_part, model_of, read
from core.retention import Fate, Retention, job_of, looked_at, may_go, part_may_go
from ports.blob_keys import segment
from ports.blobs import BlobInfo
from ports.errors import NotFound, Unreadable
from ports.units import Instant
from ports.workloads import TERMINAL, Phase


@frozen
class Swept:
    """How many blobs went. uploads: parts of models that were never finished among them. blobs: of so many jobs, and logs of
    endpoints."""

    uploads: int = 0
    blobs: int = 0
    jobs: int = 0


def sweep(house: House) -> Swept:
    """Delete what the terms of the house keep no longer. Raises Unavailable."""
    kept, now = house.terms.retention, house.clock.now()
    uploads = _delete(house, (info.key for info in _going(house.blobs.list("uploads/"), now, Fate.UNKNOWN, kept)))
    uploads += _sweep_parts(house, now, kept)
    blobs = _delete(house, (info.key for info in _going(house.blobs.list("endpoints/"), now, Fate.UNKNOWN, kept)))
    jobs = 0
    for job_id, group in groupby(house.blobs.list("jobs/"), lambda info: job_of(info.key)):
        found = list(group)
        youngest = looked_at((info.key for info in found), kept)
        old = [info for info in found if youngest is not None and now - info.modified > youngest]
        if not job_id or not old:
            continue
        fate = fate_of(house, job_id)
        going = [info.key for info in _going(old, now, fate, kept)]
        gone = _delete(house, sorted(going, key=lambda key: key.endswith("/manifest.json")))  # which tells the fate, so it goes last
        blobs, jobs = blobs + gone, jobs + bool(gone)
    return Swept(uploads, blobs, jobs)


def _sweep_parts(house: House, now: Instant, kept: Retention) -> int:
    """Of models: what no manifest names."""
    gone = 0
    for name, found in groupby(house.blobs.list(MODELS), lambda info: model_of(info.key)):
        parts = [info for info in found if is_part(info.key) and part_may_go(now - info.modified, False, kept)]
        if parts:
            model = read(house, name)
            named = model.digests if model is not None else frozenset()
            age = {info.key: now - info.modified for info in parts}
            gone += _delete(house, [key for key in age if part_may_go(age[key], key.rpartition("/")[2] in named, kept)])
    return gone


def fate_of(house: House, name: str) -> Fate:
    """Of the job whose folder has that name. Raises Unavailable."""
    if segment(name) != name:  # a hash, and only the manifest tells of what
        told = _told(house, name)
        job_id = told.get("id") if told is not None else None
        if not isinstance(job_id, str) or segment(job_id) != name:
            return Fate.LIVE  # nobody can say that it is not
        return _stored_fate(house, job_id) or _told_fate(told)
    return _stored_fate(house, name) or _told_fate(_told(house, name))


def _stored_fate(house: House, job_id: str) -> Fate | None:
    try:
        job = house.workloads.get(job_id)
    except Unreadable:
        return Fate.LIVE  # nobody can say that it is not
    if job is None:
        return None
    phase = job.status.phase
    return Fate.LIVE if phase not in TERMINAL else Fate.COMPLETED if phase is Phase.COMPLETED else Fate.FAILED


def _told(house: House, name: str) -> dict[str, object] | None:
    """Its manifest; None if there is none that can be read, {} if it is in another form."""
    try:
        told = json.loads(b"".join(house.blobs.get(f"jobs/{name}/manifest.json")))
    except (NotFound, ValueError):
        return None
    return told if isinstance(told, dict) else {}


def _told_fate(told: dict[str, object] | None) -> Fate:
    if told is None:
        return Fate.UNKNOWN
    return Fate.COMPLETED if told.get("phase") == Phase.COMPLETED.value else Fate.FAILED


def _going(found: Iterable[BlobInfo], now: Instant, fate: Fate, kept: Retention) -> Iterator[BlobInfo]:
    return (info for info in found if may_go(info.key, now - info.modified, fate, kept))


def _delete(house: House, keys: Iterable[str]) -> int:
    count = 0
    for key in keys:
        house.blobs.delete(key)
        count += 1
    return count
