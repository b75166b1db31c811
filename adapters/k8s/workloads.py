"""Jobs as Kubernetes objects.

The object's resourceVersion is the job's version, its uid the job's uid. Status is replaced through its subresource,
which leaves the spec alone; the finalizer keeps an object that its user deletes until it is settled: until then it
reads as a job whose cancel was asked for. Lists are made of pages that the API gives in its own order, of which only
as many jobs are kept as were asked for.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from attrs import evolve

from adapters.k8s import names
from adapters.k8s.client import KubeClient
from adapters.k8s.feed import KEPT, Feed
from adapters.k8s.forms import Form
from adapters.k8s.mapping import KIND, created_key, is_deleting, job_key, job_object, job_of, status_object
from adapters.k8s.objects import PAGE, Objects
from adapters.k8s.unread import Unread
from ports.errors import Conflict, IllegalTransition, Invalid
from ports.units import Span
from ports.workloads import TERMINAL, Changes, Job, JobFilter, Page, Phase, check_transition, checked_id

PLURAL = "gridweavejobs"
LIMIT = 10_000
AT_ONCE = 1_000  # jobs in one answer of `changes`
_KNOWN = 1_024  # versions of jobs, to check a write against what its writer read without reading it again


class KubeWorkloads:
    """`ports.workloads.Workloads`. Whoever follows changes takes the finalizer off what was deleted and is settled.

    page: objects in one answer of the API. kept, at_once: see `Feed` and `AT_ONCE`. feed: its watch. tell: is given each
    job that this process replaces, as it was and as it is.
    """

    draws_uids = True

    def __init__(
        self,
        client: KubeClient,
        page: int = PAGE,
        kept: int = KEPT,
        at_once: int = AT_ONCE,
        tell: Callable[[Job, Job], None] | None = None,
    ) -> None:
        self._tell = tell
        self._namespace = client.namespace
        self._objects = Objects(client, PLURAL, page)
        self._at_once = at_once
        self._unread = Unread(KIND)
        self.feed = Feed(self._objects, job_key, self._release_settled, self._saw, kept)
        self._known: OrderedDict[tuple[str, str], Job] = OrderedDict()
        self._knowing = threading.Lock()

    def close(self) -> None:
        self.feed.close()

    # ------------------------------------------------------------ one job

    def create(self, job: Job) -> Job:
        made = self._noted(self._objects.create(checked_id(job.id), job_object(job, self._namespace)))
        if job.status.phase is Phase.PENDING:
            return made
        return self._swap(evolve(made, status=job.status))  # so that people and selectors see its phase

    def get(self, job_id: str) -> Job | None:
        found = self._objects.get(job_id, names.object_name(job_id))
        if found is None or job_key(found["metadata"]) != job_id:
            return None
        return self._note(job_of(found))

    def peek(self, job_id: str) -> Job | None:
        """What the feed has heard may be older than what others have been told: only the API server knows."""
        return None

    def replace(self, job: Job) -> Job:
        old = self._read(job)
        try:
            check_transition(old, job)
        except IllegalTransition:
            fresh = self.get(job.id)
            if fresh is None or fresh.version != job.version:
                raise Conflict(job.id) from None
            raise
        written = self._swap(job)
        if self._tell is not None:
            self._tell(old, written)
        return written

    def delete(self, job: Job) -> None:
        name = names.object_name(job.id)
        if not _is_version(job.version):
            raise Conflict(job.id)
        left = self._objects.delete(job.id, name, job.uid, job.version)
        if left is not None:
            self._unhold(left)
        self.feed.wrote(job.id, int(left["metadata"]["resourceVersion"] if left is not None else job.version) + 1)

    def dismiss(self, job: Job) -> None:
        """As kubectl delete does: the finalizer keeps it until it is settled. No error if it is gone, or another one has its id."""
        try:
            left = self._objects.delete(job.id, names.object_name(job.id), job.uid)
        except Conflict:
            return
        if left is not None and left["status"]["phase"] in TERMINAL:
            self._unhold(left)
        version = left["metadata"]["resourceVersion"] if left is not None else job.version
        self.feed.wrote(job.id, int(version) + (left is None or left["status"]["phase"] in TERMINAL))

    def _swap(self, job: Job) -> Job:
        stored = self._objects.replace_status(job.id, status_object(job, self._namespace))
        written = self._noted(stored)
        if is_deleting(stored) and written.status.phase in TERMINAL:
            self._unhold(stored)
        return written

    def _read(self, job: Job) -> Job:
        """The job as its writer read it. Raises Conflict if that is not known and another version is stored."""
        with self._knowing:
            known = self._known.get((job.id, job.version))
        if known is not None:
            return known
        fresh = self.get(job.id)
        if fresh is None or fresh.version != job.version:
            raise Conflict(job.id)
        return fresh

    # ------------------------------------------------------------ many

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        if not 1 <= limit <= LIMIT:
            raise Invalid(f"limit is {limit}.", "limit", f"Give a number from 1 to {LIMIT}.", str(limit))
        order = "d" if newest_first else "a"
        after = _parse(cursor, order) if cursor else None
        choose = heapq.nlargest if newest_first else heapq.nsmallest

        def fold(forms: Iterator[Form]) -> tuple[list[tuple[tuple[int, str], Job]], dict[str, None]]:
            unread = dict[str, None]()
            placed = ((created_key(form), form) for form in forms)
            wanted = ((place, form) for place, form in placed if after is None or (place < after if newest_first else place > after))
            known = ((place, job) for place, form in wanted if (job := self._job(form, unread)) is not None)
            fitting = ((place, job) for place, job in known if _matches(job, which))
            return choose(limit + 1, fitting, key=lambda each: each[0]), unread

        (found, unread), _ = self._objects.read(fold, names.selector(which), _phases(which))
        jobs = tuple(job for _, job in found[:limit])
        return Page(jobs, _cursor(order, jobs[-1]) if len(found) > limit else "", tuple(unread))

    def changes(self, cursor: str, wait: Span = Span(0)) -> Changes:
        deadline = time.monotonic() + wait.seconds
        if not cursor:
            return Changes((), (), str(self.feed.now()))
        if not _is_version(cursor):
            raise Invalid(
                "This cursor is none that a call of changes gave.", "cursor", "Ask on from the cursor of the last answer.", cursor
            )
        after = int(cursor)
        found = self.feed.after(after, deadline, self._at_once) if self.feed.reaches(after) else None
        if found is None:
            (everything, unread), version = self._objects.read(self._all)
            return Changes(everything, (), version, True, unread)
        jobs, unread = self._all(change.form for change in found if change.form is not None)
        gone = tuple(change.key for change in found if change.form is None)
        for job in jobs:
            self._note(job)
        return Changes(jobs, gone, str(found[-1].version) if found else cursor, unreadable=unread)

    def _all(self, forms: Iterable[Form]) -> tuple[tuple[Job, ...], tuple[str, ...]]:
        """The jobs, and the ids of what can't be read."""
        unread = dict[str, None]()
        return tuple(job for form in forms if (job := self._job(form, unread)) is not None), tuple(unread)

    def _job(self, form: Form, unread: dict[str, None]) -> Job | None:
        found = self._unread.skipping(form, job_of)
        if found is None:
            unread[job_key(form["metadata"])] = None
        return found

    # ------------------------------------------------------------ the finalizer

    def _saw(self, form: Form) -> None:
        """In the feed's thread: what its user deleted may go once it is settled."""
        if is_deleting(form) and (form.get("status") or {}).get("phase") in TERMINAL:
            self._unhold(form)

    def _release_settled(self) -> None:
        """Likewise, what was deleted while nobody followed."""
        ended = _phases(JobFilter(phases=TERMINAL))
        deleted, _ = self._objects.read(lambda forms: [form for form in forms if is_deleting(form)], fields=ended)
        for each in deleted:
            self._unhold(each)

    def _unhold(self, form: Form) -> None:
        """Let an object go that is being deleted. Idempotent."""
        meta = form["metadata"]
        key = job_key(meta)
        while names.FINALIZER in (meta.get("finalizers") or ()):
            rest = [each for each in meta["finalizers"] if each != names.FINALIZER]
            patch = {"metadata": {"finalizers": rest, "resourceVersion": meta["resourceVersion"], "uid": meta["uid"]}}
            try:
                self._objects.patch(key, meta["name"], patch)
                return
            except Conflict:
                fresh = self._objects.get(key, meta["name"])
                if fresh is None or fresh["metadata"]["uid"] != meta["uid"]:
                    return
                meta = fresh["metadata"]

    # ------------------------------------------------------------ what is known

    def _noted(self, stored: Form) -> Job:
        """A job that this process has just written."""
        job = self._note(job_of(stored))
        self.feed.wrote(job.id, int(job.version))
        return job

    def _note(self, job: Job) -> Job:
        with self._knowing:
            self._known[job.id, job.version] = job
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return job


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _phases(which: JobFilter) -> str:
    """Field selectors only say and: of the phases wanted, each other one is excluded."""
    if not which.phases:
        return ""
    return ",".join(f"status.phase!={phase.value}" for phase in Phase if phase not in which.phases)


def _matches(job: Job, which: JobFilter) -> bool:
    """A hash may stand for two texts."""
    return (
        which.user in (None, job.spec.user)
        and which.name in (None, job.spec.name)
        and (not which.phases or job.status.phase in which.phases)
        and which.labels.items() <= job.spec.labels.items()
    )


def _cursor(order: str, job: Job) -> str:
    text = json.dumps([order, job.created_at.ms, job.id], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _parse(cursor: str, order: str) -> tuple[int, str]:
    try:
        of, created, job = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, TypeError, binascii.Error):
        of = created = job = None
    if of != order or type(created) is not int or abs(created) >= 1 << 63 or type(job) is not str:
        raise Invalid("This cursor continues no list of this order.", "cursor", "Give the cursor of the page before, or none.", cursor)
    return created, job
