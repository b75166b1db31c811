"""Workloads as they are stored: the ask, the placement, the runs, the phase table, and the store's Protocol.

The table of phases is data: core decides by it, and every store refuses a write that moves along none of
its edges. A run is one attempt of a workload on one placement; its state only moves forward.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from attrs import evolve, field, frozen

from ports.errors import IllegalTransition, Invalid
from ports.tariffs import Price
from ports.units import Credits, Instant, Mib, Span

SCHEMA = 1  # of the stored form; a newer release reads and migrates older ones

# ---------------------------------------------------------------- what is wanted, and what is given


@frozen
class Ask:
    """What is wanted.

    mib: VRAM per GPU. gpus: per worker. workers: processes of a gang. exclusive: whole idle GPUs.
    owner: narrows the owner policy: "org", "provider", "provider:<id>", "self_host"; None: the policy alone.
    """

    mib: Mib
    gpus: int = 1
    workers: int = 1
    model: str | None = None
    vendor: str | None = None
    owner: str | None = None
    exclusive: bool = False


@frozen
class Slot:
    """One share of one GPU. An exclusive slot has all of the GPU's MiB."""

    node: str
    gpu: int
    mib: Mib


Placement = tuple[Slot, ...]


@frozen(order=True)
class RunId:
    """`workload/attempt`, and for an endpoint's replica `workload/attempt/replica`. Attempts count from 1."""

    workload: str
    attempt: int
    replica: int | None = None

    def __str__(self) -> str:
        return f"{self.workload}/{self.attempt}" + ("" if self.replica is None else f"/{self.replica}")

    @staticmethod
    def parse(text: str) -> RunId:
        """From the right: an id that somebody chose may hold a slash. Raises ValueError."""
        front, slash, last = text.rpartition("/")
        workload, inner, attempt = front.rpartition("/")
        if inner and attempt.isdecimal():
            return RunId(workload, int(attempt), int(last))
        if not slash:
            raise ValueError(f"{text!r:.80} names no run")
        return RunId(front, int(last))


def is_id(text: str) -> bool:
    """Whether a workload may have that id: not what reads as one of another's runs, or its own runs would read as replicas of it."""
    _, slash, last = text.rpartition("/")
    return not (slash and last.isdecimal())


def checked_id(text: str) -> str:
    """Raises Invalid."""
    if not is_id(text):
        remedy = "Give an id that does not end in a slash and a number."
        raise Invalid(f"The id {text!r:.80} reads as a run of another workload.", "id", remedy, text)
    return text


# ---------------------------------------------------------------- phases and states


class Phase(StrEnum):
    PENDING = "Pending"  # waits: for its funding, then for its turn and room
    ALLOCATED = "Allocated"  # booked; its agents prepare
    RUNNING = "Running"  # `go` was given
    CLOSING = "Closing"  # holds no GPU any more; result, charge and hold are being settled
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.PENDING: frozenset({Phase.ALLOCATED, Phase.CLOSING}),
    Phase.ALLOCATED: frozenset({Phase.RUNNING, Phase.CLOSING, Phase.PENDING}),
    Phase.RUNNING: frozenset({Phase.CLOSING, Phase.PENDING}),
    Phase.CLOSING: frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED}),
    Phase.COMPLETED: frozenset(),
    Phase.FAILED: frozenset(),
    Phase.CANCELLED: frozenset(),
}
TERMINAL = frozenset(phase for phase, nexts in TRANSITIONS.items() if not nexts)


class RunState(StrEnum):
    BOOKED = "Booked"
    RUNNING = "Running"
    ENDED = "Ended"


_FORWARD = {RunState.BOOKED: 0, RunState.RUNNING: 1, RunState.ENDED: 2}


class ExitKind(StrEnum):
    RETURNED = "Returned"  # the function returned; its result is a blob
    RAISED = "Raised"  # the user's own exception; it is in the result blob too
    EXITED = "Exited"  # sys.exit or os._exit with `code`, without a result
    SIGNALLED = "Signalled"  # ended by `signal`; `oom` if it was for want of memory
    KILLED = "Killed"  # ended by us; the reason is in the outcome
    SETUP_FAILED = "SetupFailed"  # the environment could not be built, or an input not be fetched
    RUNNER_LOST = "RunnerLost"  # its supervisor or node is gone; billed to the last proof of life
    NEVER_RAN = "NeverRan"  # ended before `go`


@frozen
class Exit:
    """How a run ended. message: for people. traceback: the remote one, as text. log_tail: last lines of its log."""

    kind: ExitKind
    code: int | None = None
    signal: str = ""
    oom: bool = False
    message: str = ""
    traceback: str = ""
    log_tail: str = ""


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@frozen
class Condition:
    """As in Kubernetes. at: when `status` last changed."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    at: Instant = Instant(0)


FUNDED = "Funded"  # Unknown: the hold is being authorised; True: it is held, or credits are off
RESULT_STORED = "ResultStored"  # result and logs are in the blob store, or there is nothing to store
CHARGED = "Charged"  # the final charge is posted
HOLD_VOIDED = "HoldVoided"  # the hold is given back
BUDGET = "Budget"  # True: half of the cap or more is spent; the reason says how much
CANCEL_REQUESTED = "CancelRequested"  # True: somebody else than its user has asked for its end; the reason says who, and names nobody
LOW_BALANCE = "LowBalance"  # True: the balance is gone; the next scheduler round ends the workload

# ---------------------------------------------------------------- the job


@frozen
class BlobRef:
    """Bytes in the blob store, known by content. sha256: 64 hex digits. size: bytes."""

    sha256: str
    size: int


@frozen
class Environment:
    """What a run needs around the function. pip, uv: requirements. env_vars: byte for byte. working_dir: a zip."""

    pip: tuple[str, ...] = ()
    uv: tuple[str, ...] = ()
    env_vars: dict[str, str] = field(factory=dict)
    working_dir: BlobRef | None = None


@frozen
class JobSpec:
    """What the user asked for; immutable.

    plan: as it was when submitted. code: a zip of the modules beside the function. python: minor version
    ("3.11") and cloudpickle: version of the client. max_runtime: the run is ended after it.
    body_sha256: of the request, to tell a replay from another body under the same idempotency key.
    hold: set aside at submit. billed: False where nothing is held or charged. cap: the most that it may cost, None: no bound.
    """

    user: str
    plan: str
    name: str
    ask: Ask
    function: BlobRef
    args: BlobRef
    code: BlobRef | None = None
    env: Environment = Environment()
    max_runtime: Span | None = None
    labels: dict[str, str] = field(factory=dict)
    python: str = ""
    cloudpickle: str = ""
    body_sha256: str = ""
    hold: Credits = Credits(0)
    billed: bool = True
    cap: Credits | None = None


@frozen
class Run:
    """One attempt on one placement. Placement, epoch and price, once set, stay. ran: from `go` to gone."""

    id: RunId
    state: RunState
    placement: Placement
    epoch: int
    price: Price
    booked_at: Instant
    started_at: Instant | None = None
    ended_at: Instant | None = None
    ran: Span = Span(0)
    exit: Exit | None = None


@frozen
class Result:
    """A result blob at `key`. raised: it holds the user's exception, not a value."""

    key: str
    size: int
    sha256: str
    raised: bool = False


@frozen
class JobStatus:
    """attempt: of the newest run, 0 before the first. waiting: why it is Pending, for people. position: in the
    queue, from 1. cancel: when its end was asked for. outcome: the terminal phase that closing leads to; reason
    and message say why."""

    phase: Phase = Phase.PENDING
    attempt: int = 0
    runs: tuple[Run, ...] = ()
    conditions: tuple[Condition, ...] = ()
    waiting: str = ""
    position: int = 0
    cancel: Instant | None = None
    outcome: Phase | None = None
    reason: str = ""
    message: str = ""
    result: Result | None = None
    charged: Credits = Credits(0)

    @property
    def run(self) -> Run | None:
        """The newest run."""
        return self.runs[-1] if self.runs else None

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.conditions if each.type == kind), None)

    def holds(self, kind: str) -> bool:
        """Whether that condition is True."""
        found = self.condition(kind)
        return found is not None and found.status is ConditionStatus.TRUE

    def with_condition(self, kind: str, status: ConditionStatus, at: Instant, reason: str = "", message: str = "") -> JobStatus:
        """The same status with that condition; its time stays if its status does."""
        old = self.condition(kind)
        new = Condition(kind, status, reason, message, old.at if old is not None and old.status is status else at)
        rest = tuple(each for each in self.conditions if each.type != kind)
        return evolve(self, conditions=tuple(sorted((*rest, new), key=lambda each: each.type)))

    def with_run(self, run: Run) -> JobStatus:
        """The same status with that run in place of the one of the same id, or added as the newest."""
        if any(each.id == run.id for each in self.runs):
            return evolve(self, runs=tuple(run if each.id == run.id else each for each in self.runs))
        return evolve(self, runs=(*self.runs, run), attempt=run.id.attempt)


@frozen
class Job:
    """A stored job. uid: of this very object; another of the same id has another. version: the store's, for
    compare-and-swap. created_at: its place in the queue. leaving: its object was deleted, and stays only until the job
    is settled; no writer sets it."""

    id: str
    uid: str
    created_at: Instant
    spec: JobSpec
    status: JobStatus = JobStatus()
    version: str = ""
    schema: int = SCHEMA
    leaving: bool = False


def check_transition(old: Job, new: Job) -> None:
    """Raise IllegalTransition unless the write keeps every rule that no writer may break. Stores call it on replace."""

    def refuse(was: object, wanted: object) -> None:
        raise IllegalTransition(old.id, str(was), str(wanted))

    was, wanted = old.status, new.status
    if wanted.phase is not was.phase and wanted.phase not in TRANSITIONS[was.phase]:
        refuse(was.phase, wanted.phase)
    if wanted.attempt < was.attempt:
        refuse(f"attempt {was.attempt}", f"attempt {wanted.attempt}")
    if new.spec != old.spec or new.uid != old.uid or new.created_at != old.created_at:
        refuse("spec", "another spec")
    after = {run.id: run for run in wanted.runs}
    for run in was.runs:
        now = after.get(run.id)
        if now is None or _FORWARD[now.state] < _FORWARD[run.state]:
            refuse(f"{run.id} {run.state}", "gone" if now is None else now.state)
        elif (now.placement, now.epoch, now.price) != (run.placement, run.epoch, run.price) or now.ran < run.ran:
            refuse(f"{run.id} as placed", "another placement, epoch, price or a shorter time")


# ---------------------------------------------------------------- the store


@frozen
class JobFilter:
    """None or empty: any. labels: all must match."""

    user: str | None = None
    phases: frozenset[Phase] = frozenset()
    labels: dict[str, str] = field(factory=dict)
    name: str | None = None


@frozen
class Page:
    """Jobs, and the cursor of the next page; empty at the end.

    unreadable: ids of stored objects that may belong here and can't be read: they are there, and nobody knows their state.
    """

    jobs: tuple[Job, ...]
    cursor: str = ""
    unreadable: tuple[str, ...] = ()


@frozen
class Changes:
    """What changed after a cursor: each job's latest state, and ids that are gone. cursor: to ask on from.

    whole: the cursor was too old for a difference; `jobs` are all there are, and whatever is not among them is gone.
    An id is never in both: one that was made anew is in `jobs`, with another uid. unreadable: as in `Page`; these are not gone.
    """

    jobs: tuple[Job, ...]
    deleted: tuple[str, ...]
    cursor: str
    whole: bool = False
    unreadable: tuple[str, ...] = ()


class Workloads(Protocol):
    """The store of jobs. Every method raises Unavailable when the store does not answer.

    draws_uids: a new job gets a uid of the store's own, not the one that it came with.
    """

    @property
    def draws_uids(self) -> bool: ...

    def create(self, job: Job) -> Job:
        """Store a new job; gives it with its version, and with the store's own uid if it draws them. Raises AlreadyExists
        if the id is taken, Invalid if it is none (`is_id`)."""
        ...

    def get(self, job_id: str) -> Job | None:
        """Raises Unreadable."""
        ...

    def peek(self, job_id: str) -> Job | None:
        """What `get` would give now, where that can be told at once, without waiting for a lock, a disk or a network; None: ask
        `get`. Never raises. For whoever must not stand still, such as an event loop."""
        ...

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        """By creation and id. A cursor is opaque, and belongs to the same filter and order."""
        ...

    def replace(self, job: Job) -> Job:
        """Compare-and-swap on `job.version`. Raises Conflict (also when it is gone) or IllegalTransition."""
        ...

    def delete(self, job: Job) -> None:
        """Delete that version. Raises Conflict if another is stored or none."""
        ...

    def changes(self, cursor: str, wait: Span = Span(0)) -> Changes:
        """What changed after `cursor`; waits up to `wait` for the first change. "" is: from now, answered at once with nothing.

        Level-triggered: in the end each object's latest state and each deletion is given, never an older
        state after a newer one. Steps between may be skipped.
        """
        ...
