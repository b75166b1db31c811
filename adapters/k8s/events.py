"""What the scheduler did with a job, as events that `kubectl describe` shows: placed, started, ended, charged, refused.

An event is for people, and nothing depends on one: they are written by a thread of their own, at most so many a second,
and left out when too many wait or the API does not answer. What happens once to an attempt has one name, so that it is
told once by however many schedulers. Nothing that a user wrote is repeated.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from queue import Empty, Full, Queue

from attrs import frozen

from adapters.k8s import names
from adapters.k8s.client import API_VERSION, GROUP, KubeClient
from adapters.k8s.forms import Form
from adapters.k8s.mapping import KIND, where
from adapters.k8s.objects import TIMEOUT, AbsentError, answers
from ports.errors import AlreadyExists, Conflict, Invalid, Unavailable
from ports.workloads import CHARGED, FUNDED, TERMINAL, ConditionStatus, ExitKind, Job, Phase, Run, RunState

CONTROLLER = f"{GROUP}/scheduler"
WAITING = 1_000  # events; more are left out
EVERY_S = 0.05  # between two events
TRIES = 3
_LONGEST_NAME = 200  # of the job's in the event's
_PAUSE_S = 1.0  # after a failed try
_FAREWELL_S = 2.0  # the longest that closing waits for what is yet to be written
_WELL = frozenset({ExitKind.RETURNED, ExitKind.KILLED, ExitKind.NEVER_RAN})


@frozen
class Happening:
    """reason: one word. action: what was done. key: tells it from others of that reason of the same job."""

    reason: str
    action: str
    note: str
    key: str = ""
    well: bool = True


def happenings(was: Job, now: Job) -> Iterator[Happening]:
    """What lies between two states of a job."""
    before = {run.id: run.state for run in was.status.runs}
    for run in now.status.runs:
        if before.get(run.id) is not run.state:
            yield _of_run(run)
    for kind, tell in ((FUNDED, _funding), (CHARGED, _charge)):
        old, new = was.status.condition(kind), now.status.condition(kind)
        if new is not None and (old is None or old.status is not new.status):
            yield from tell(now, new.status, new.reason)
    if now.status.phase in TERMINAL and was.status.phase is not now.status.phase:
        why = now.status.reason or "settled"
        yield Happening(now.status.phase.value, "Close", f"The job is {now.status.phase}: {why}", well=now.status.phase is not Phase.FAILED)


def _of_run(run: Run) -> Happening:
    attempt = f"Attempt {run.id.attempt}"
    if run.state is RunState.BOOKED:
        return Happening("Placed", "Place", f"{attempt} is placed on {where(run.placement)}", str(run.id))
    if run.state is RunState.RUNNING:
        return Happening("Started", "Start", f"{attempt} started", str(run.id))
    kind = run.exit.kind if run.exit is not None else ExitKind.NEVER_RAN
    return Happening("Ended", "End", f"{attempt} ended after {run.ran.ms / 1000:g} s: {kind}", str(run.id), kind in _WELL)


def _funding(job: Job, status: ConditionStatus, reason: str) -> Iterator[Happening]:
    if status is ConditionStatus.FALSE:
        yield Happening("Refused", "Fund", f"The job is refused: {reason}", well=False)


def _charge(job: Job, status: ConditionStatus, reason: str) -> Iterator[Happening]:
    if status is ConditionStatus.FALSE:
        yield Happening("ChargeRefused", "Charge", "The credit service refused the final charge", well=False)
    elif status is ConditionStatus.UNKNOWN:
        yield Happening("InArrears", "Charge", "The credit service is away; what is owed is charged later", well=False)
    elif job.spec.billed:
        yield Happening("Charged", "Charge", f"{job.status.charged} credits are charged")


class KubeEvents:
    """reporter: this process. every_s: the least between two events. waiting: events that may wait to be written."""

    def __init__(self, client: KubeClient, reporter: str, every_s: float = EVERY_S, waiting: int = WAITING) -> None:
        self._client, self._reporter, self._every_s = client, reporter[:128], every_s
        self._queue: Queue[Form] = Queue(waiting)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()
        self.left_out = 0

    def tell(self, was: Job, now: Job) -> None:
        """Never waits, never raises."""
        for each in happenings(was, now):
            try:
                self._queue.put_nowait(self._event(now, each))
            except Full:
                self.left_out += 1
                continue
            self._start()

    def close(self) -> None:
        """What waits is written, if that can be done soon."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(_FAREWELL_S)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="events", daemon=True)
                self._thread.start()

    def _event(self, job: Job, what: Happening) -> Form:
        name = names.object_name(job.id)
        regarding = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": self._client.namespace,
            "name": name,
            "uid": job.uid,
            "resourceVersion": job.version,
        }
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{name[:_LONGEST_NAME]}.{names.digest(f'{job.uid}/{what.reason}/{what.key}')[:16]}",
                "namespace": self._client.namespace,
            },
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._reporter,
            "action": what.action,
            "reason": what.reason,
            "regarding": regarding,
            "note": what.note[:1000],
            "type": "Normal" if what.well else "Warning",
        }

    def _run(self) -> None:
        while True:
            try:
                event = self._queue.get(timeout=0.2)
            except Empty:
                if self._closed.is_set():
                    return
                continue
            self._write(event)
            self._closed.wait(self._every_s)

    def _write(self, event: Form) -> None:
        for _ in range(TRIES):
            try:
                with contextlib.suppress(AlreadyExists, Conflict, AbsentError, Invalid), answers("event"):
                    self._client.events.create_namespaced_event(self._client.namespace, event, _request_timeout=TIMEOUT)
                return
            except Unavailable:
                if self._closed.wait(_PAUSE_S):
                    break
        self.left_out += 1
