"""A gateway's live copy of what is unfinished: one thread follows the store's changes and the node records.

Requests read it without I/O, and wait on it instead of polling. While the store does not answer, the copy stays
as it last was, and `stale` says so.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from core.inventory import Fleet
from core.mirror import Mirror
from core.policies import Policy
from ports.errors import Unavailable
from ports.nodes import NodeRecord, NodeRecords
from ports.units import Span
from ports.workloads import TERMINAL, Job, JobFilter, Phase, Workloads
from runtimes.breath import Breath
from runtimes.http.money_seen import MoneySeen

log = structlog.get_logger("gridweave.watch")

_WAIT = Span.of(seconds=1)  # also how often the node records are read again
_RETRY_S = 1.0
_PAGE = 5_000  # a store without an index reads everything for each


class Signal:
    """Set by the watch when a job changes; its reader clears it, reads, and waits again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

        self.at = 0.0  # loop time of the newest change

    def set(self, at: float) -> None:
        self.at = at
        self._event.set()

    async def wait(self, timeout_s: float) -> None:
        """Until the next change, or as long as that."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout_s)
        except TimeoutError:
            return
        finally:
            self._event.clear()


class Watch:
    """start() and stop() belong to the process; everything else may be called from the event loop at any time."""

    def __init__(self, workloads: Workloads, nodes: NodeRecords, policy: Policy | None = None) -> None:
        self._workloads, self._nodes = workloads, nodes
        self._lock = threading.Lock()
        self._mirror = Mirror(policy)
        self._records: tuple[NodeRecord, ...] = ()
        self._folded: Fleet | None = None  # the newest snapshot, until something changes
        self._signals: dict[str, set[Signal]] = defaultdict(set)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._read = False
        self._unreadable: set[str] = set()  # ids of jobs
        self.money = MoneySeen()
        self.stale = "it has not been read yet"

    def start(self, loop: asyncio.AbstractEventLoop, cursor: str = "") -> None:
        """cursor: of a round that was made before; "" reads everything."""
        self._loop = loop
        self._thread = threading.Thread(target=self._follow, args=(cursor,), name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end; it does so within about a second, and a hung store does not hold us up."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def fleet(self) -> Fleet:
        """One consistent snapshot of every node and GPU. Raises Unavailable before the store was read once."""
        if not self._read:
            raise Unavailable("the workload store", self.stale, 1)
        with self._lock:
            if self._folded is None:
                self._folded = self._mirror.fleet(self._records)
            return self._folded

    def versions(self) -> tuple[str, str]:
        """Python and cloudpickle of the nodes, "" while no node has told them."""
        return self.fleet().versions() if self._read else ("", "")

    def record(self, node: str) -> NodeRecord | None:
        return next((each for each in self._records if each.name == node), None)

    def position(self, job_id: str) -> int:
        with self._lock:
            return self._mirror.position(job_id)

    def ahead(self, job_id: str) -> int:
        with self._lock:
            return self._mirror.ahead(job_id)

    def waiting(self) -> int:
        with self._lock:
            return self._mirror.waiting()

    def queue(self) -> tuple[Job, ...]:
        """Jobs that wait, oldest first."""
        with self._lock:
            return self._mirror.queue()

    def phases(self) -> dict[Phase, int]:
        with self._lock:
            return self._mirror.phases()

    def unreadable(self) -> dict[str, int]:
        """How many stored objects of each kind can't be read, and are skipped."""
        with self._lock:
            return {"job": len(self._unreadable), "node": sum(1 for each in self._records if each.unreadable)}

    @contextmanager
    def changes_of(self, job_id: str) -> Iterator[Signal]:
        """A signal that is set at each later change of that job. Begin it before the first read."""
        signal = Signal()
        self._signals[job_id].add(signal)
        try:
            yield signal
        finally:
            self._signals[job_id].discard(signal)
            if not self._signals[job_id]:
                del self._signals[job_id]

    def round(self, cursor: str, wait: Span = _WAIT) -> str:
        """One look at the store: changes after `cursor` ("" reads everything anew) and the node records."""
        if not cursor:
            cursor = self._read_all()
        changes = self._workloads.changes(cursor, wait)
        records = self._nodes.list()
        with self._lock:
            before = self._mirror.revision
            self._mirror.apply(changes)
            mended = self._unreadable if changes.whole else {job.id for job in changes.jobs} | set(changes.deleted)
            self._unreadable = (self._unreadable - mended) | set(changes.unreadable)
            if self._mirror.revision != before or records != self._records:
                self._records, self._folded = records, None
            self.money.see(changes.jobs, changes.deleted)
        self.stale, self._read = "", True
        self._tell({job.id for job in changes.jobs} | set(changes.deleted))
        return changes.cursor

    def _read_all(self) -> str:
        cursor = self._workloads.changes("").cursor
        fresh, money, page, unreadable = Mirror(), MoneySeen(), "", set[str]()
        unfinished = JobFilter(phases=frozenset(Phase) - TERMINAL)
        while True:
            found = self._workloads.list(unfinished, page, _PAGE)
            fresh.seed(found.jobs)
            money.seed(found.jobs)
            unreadable.update(found.unreadable)
            page = found.cursor
            if not page:
                break
        with self._lock:
            fresh.succeed(self._mirror)
            self._mirror, self._folded, self._unreadable = fresh, None, unreadable
            money.succeed(self.money)
            self.money = money
        return cursor

    def _follow(self, cursor: str) -> None:
        breath = Breath()
        while not self._ending.is_set():
            try:
                before, cursor = cursor, self.round(cursor)
                if cursor != before:
                    self._ending.wait(breath.seconds())
            except Unavailable as error:
                self._fail(str(error))
            except Exception as error:  # the thread is the only one: it must outlive what it did not expect
                log.exception("watch failed")
                self._fail(type(error).__name__)
                cursor = ""

    def _fail(self, why: str) -> None:
        self.stale = why
        self._ending.wait(_RETRY_S)

    def _tell(self, ids: set[str]) -> None:
        if ids and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._set, ids)

    def _set(self, ids: set[str]) -> None:
        now = asyncio.get_running_loop().time()
        for job_id in ids & self._signals.keys():
            for signal in self._signals[job_id]:
                signal.set(now)

    def wake_all(self) -> None:
        """Every waiter looks again: the gateway is stopping."""
        self._set(set(self._signals))
