"""The archive: jobs that ended long ago, in the blob store; their objects are gone.

    archive/jobs/<id>/<uid>.json           the job as it was stored, without the values of its environment
    archive/all/<newest first>.json        the index: one small entry for each job, and again for each user
    archive/users/<user hash>/<newest first>.json

Record, then index, then the object: whoever dies on the way leaves a job that is still listed as an object, and the
next round writes the same names again. Bytes of the job itself stay where they are, and so does the journal of money.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from attrs import evolve, field, frozen

from core.each_job import each_job
from core.house import House
from core.names import user_hash
from ports.blob_keys import segment
from ports.blobs import BlobStore
from ports.errors import Conflict, NotFound, Unavailable
from ports.units import Instant, Span
from ports.wire import dump, load
from ports.workloads import CHARGED, HOLD_VOIDED, RESULT_STORED, SCHEMA, TERMINAL, Job, JobFilter, Phase

RECORDS, ALL, USERS = "archive/jobs/", "archive/all/", "archive/users/"
_LAST = 10**15 - 1  # ms: times are written as what is left until then, so that the newest comes first
T = TypeVar("T")
Place = tuple[int, str]  # creation in ms, and id: the order of a list

# ---------------------------------------------------------------- which, and when


def archivable(job: Job) -> bool:
    """Ended, charged, stored, and nothing left to settle."""
    status = job.status
    stored = status.run is None or status.holds(RESULT_STORED)
    return status.phase in TERMINAL and status.holds(CHARGED) and status.holds(HOLD_VOIDED) and stored and not job.leaving


def is_due(job: Job, now: Instant, kept: Span) -> bool:
    """Whether it was settled at least `kept` ago."""
    charged = job.status.condition(CHARGED)
    return archivable(job) and charged is not None and now - charged.at >= kept


@frozen
class Archived:
    """What one round did. moved: jobs. unsettled: jobs old enough that something is still owed or missing of."""

    moved: int = 0
    unsettled: int = 0


def archive(house: House) -> Archived:
    """Move what is due from the store to the archive. Raises Unavailable; the next round goes on."""
    kept, now, moved, unsettled = house.terms.archive_after, house.clock.now(), 0, 0
    for job in each_job(house, JobFilter(phases=TERMINAL)):
        if now - job.created_at < kept:
            break  # oldest first: none of the others can be due
        if not is_due(job, now, kept):
            unsettled += not archivable(job)
            continue
        Archive(house.blobs).keep(job)
        try:
            house.workloads.delete(job)
        except Conflict:
            continue  # another one is at it, or its user has deleted it
        moved += 1
    return Archived(moved, unsettled)


# ---------------------------------------------------------------- what is kept


@frozen
class Entry:
    """A job in the index, with what lists are narrowed by."""

    id: str
    uid: str
    created_at: Instant
    user: str
    name: str
    phase: Phase
    labels: dict[str, str] = field(factory=dict)

    @property
    def place(self) -> Place:
        return self.created_at.ms, self.id

    def fits(self, which: JobFilter) -> bool:
        return (
            which.user in (None, self.user)
            and which.name in (None, self.name)
            and (not which.phases or self.phase in which.phases)
            and which.labels.items() <= self.labels.items()
        )


def as_kept(job: Job) -> Job:
    """What the archive has of it. Users keep passwords in variables; a run that has ended needs none, and a bucket is read by more
    people than jobs are."""
    env = job.spec.env
    return evolve(job, version="", spec=evolve(job.spec, env=evolve(env, env_vars=dict.fromkeys(env.env_vars, ""))))


@frozen
class Archive:
    """Every method raises Unavailable when the blob store does not answer, or keeps what this release can't read."""

    blobs: BlobStore

    def keep(self, job: Job) -> None:
        """Durable when it returns. The same job again changes nothing."""
        self.blobs.put(_record_key(job.id, job.uid), [_bytes(as_kept(job))])
        entry = Entry(job.id, job.uid, job.created_at, job.spec.user, job.spec.name, job.status.phase, job.spec.labels)
        name = f"{_countdown(job.created_at.ms)}-{segment(job.id)[:80]}-{segment(job.uid)[:80]}.json"
        for index in (ALL, _of_user(job.spec.user)):
            self.blobs.put(index + name, [_bytes(entry)])

    def get(self, job_id: str) -> Job | None:
        """The newest of that id."""
        found = [self._read(info.key, Job) for info in self.blobs.list(f"{RECORDS}{segment(job_id)}/")]
        return max((job for job in found if job is not None), key=lambda job: job.created_at.ms, default=None)

    def newest_first(self, which: JobFilter, after: Place | None = None) -> Iterator[Job]:
        """By creation and id, from what comes after that place on."""
        for entry in self._entries(ALL if which.user is None else _of_user(which.user), after):
            if (after is None or entry.place < after) and entry.fits(which):
                job = self._read(_record_key(entry.id, entry.uid), Job)
                if job is not None:
                    yield job

    def _entries(self, index: str, after: Place | None) -> Iterator[Entry]:
        start = "" if after is None else index + _countdown(after[0])
        group, of = list[Entry](), ""
        for info in self.blobs.list(index):
            if info.key < start:
                continue
            moment = info.key[: len(index) + len(_countdown(0))]
            if moment != of:
                yield from _by_place(group)
                group, of = [], moment
            entry = self._read(info.key, Entry)
            if entry is not None:
                group.append(entry)
        yield from _by_place(group)

    def _read(self, key: str, kind: type[T]) -> T | None:
        try:
            data = b"".join(self.blobs.get(key))
        except NotFound:
            return None
        try:
            found = load(data.decode("utf-8", "surrogatepass"), kind)
        except Exception as error:  # whatever a damaged or newer form makes the converter raise
            raise Unavailable("the archive", f"{key} can't be read: {type(error).__name__}") from error
        if isinstance(found, Job) and found.schema > SCHEMA:
            raise Unavailable("the archive", f"a newer release wrote {key} (schema {found.schema}); this one knows up to {SCHEMA}")
        return found


def _bytes(value: object) -> bytes:
    return dump(value).encode("utf-8", "surrogatepass")


def _record_key(job_id: str, uid: str) -> str:
    return f"{RECORDS}{segment(job_id)}/{segment(uid)}.json"


def _of_user(user: str) -> str:
    return f"{USERS}{user_hash(user)}/"


def _countdown(ms: int) -> str:
    return f"{min(_LAST, max(0, _LAST - ms)):015d}"


def _by_place(entries: list[Entry]) -> list[Entry]:
    """Those of one millisecond."""
    return sorted(entries, key=lambda entry: entry.place, reverse=True)
