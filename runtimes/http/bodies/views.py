"""Answers: money as decimal text, times as RFC 3339 in UTC, durations in ms, VRAM in MiB."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from attrs import evolve, field, frozen

from core.charges import cost
from core.inventory import Fleet
from core.lifecycle import who_cancels
from core.waiting import waiting
from ports.errors import NotFound
from ports.tariffs import Price
from ports.units import Credits, Instant, Rate, Span
from ports.workloads import FUNDED, HOLD_VOIDED, RESULT_STORED, TERMINAL, ConditionStatus, Exit, Job, Phase, Placement, Run, RunState

HOUR = Span.of(hours=1)


def instant(at: Instant | None) -> str | None:
    return None if at is None else _instant(at)


@lru_cache(4096)  # the same few are shown again and again
def _instant(at: Instant) -> str:
    moment = datetime.fromtimestamp(at.ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at.ms % 1000:03d}Z"


def hourly(rate: Rate) -> str:
    """Credits per hour, rounded up to the micro-credit: for people, and never for a cost."""
    return str(rate.prorate_ceil(HOUR))


def encode(view: Any) -> bytes:
    """A user's exception may hold half of a surrogate pair, as the name of a file that is no UTF-8 does: it is shown escaped."""
    try:
        return msgspec.json.encode(view)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(msgspec.to_builtins(view)))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {_whole(key): _whole(each) for key, each in value.items()}
    return value


@frozen
class SlotView:
    """One share of one GPU. model and owner are empty when the node has left the fleet."""

    node: str
    gpu: int
    mib: int
    model: str
    owner: str


@frozen
class ConditionView:
    type: str
    status: str
    reason: str
    message: str
    at: str | None


@frozen
class ExitView:
    kind: str
    code: int | None
    signal: str
    oom: bool
    message: str
    traceback: str
    log_tail: str


@frozen
class ResultView:
    size: int
    sha256: str
    raised: bool


@frozen
class JobView:
    """A job as its user sees it. setup: what the node does while the job is Allocated. ran_ms, charged: so far, while it
    runs. cap: the most that it may cost. money_ends_at: when what it runs on is used up, if nothing changes: its cap, or its
    user's balance; None if it does not run, costs nothing, or the balance can't be told now.
    hold: set aside at submit; held: what of it still is."""

    id: str
    name: str
    user: str
    phase: str
    reason: str
    message: str
    waiting: str
    position: int
    attempt: int
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    ran_ms: int
    setup: str
    placement: list[SlotView]
    conditions: list[ConditionView]
    rate_per_hour: str | None
    tariff: int | None
    hold: str
    held: str
    charged: str
    cap: str | None
    money_ends_at: str | None
    exit: ExitView | None
    result: ResultView | None
    cancel_requested_at: str | None
    labels: dict[str, str]


@frozen
class JobList:
    """all_users: whether the list is of all users, as an admin's is."""

    jobs: list[JobView]
    cursor: str
    all_users: bool = False


@frozen
class SubmittedView:
    """created: false if an earlier request with the same idempotency key made the job."""

    id: str
    name: str
    phase: str
    created: bool
    hold: str
    rate_per_hour: str
    status_url: str


@frozen
class EstimateView:
    """rate_per_hour: of the dearest pool that the ask allows. balance: of the account; available: what of it no hold has
    set aside, so what affordable is about; unaffordable: why it is not. reason: why it would not be placed now."""

    rate_per_hour: str
    hold: str
    balance: str
    available: str
    affordable: bool
    placeable_now: bool
    placement: list[SlotView]
    placed_rate_per_hour: str | None
    reason: str
    short_by_mib: int
    pools: list[str]
    unaffordable: str = ""


@frozen
class UploadView:
    """present: nothing is to be sent. Otherwise: send the bytes to url by method, with these headers."""

    present: bool
    method: str = ""
    url: str = ""
    headers: dict[str, str] = field(factory=dict)
    expires: str | None = None


@frozen
class ModelView:
    """size: bytes of all its files; files: how many they are."""

    name: str
    owner: str
    size: int
    files: int
    created_at: str | None


@frozen
class Models:
    models: list[ModelView]


@frozen
class GpuView:
    """plans: users of which plans may use it. usable: new bookings may go there now."""

    index: int
    model: str
    vendor: str
    uuid: str
    total_mib: int
    free_mib: int
    booked_mib: int
    quarantined_mib: int
    usable: bool
    plans: list[str]


@frozen
class NodeView:
    name: str
    owner: str
    state: str
    reason: str
    drain: bool
    gpus: list[GpuView]


@frozen
class Resources:
    """One consistent snapshot of the fleet."""

    nodes: list[NodeView]


@frozen
class MoveView:
    """A run that would stop where it was and start again elsewhere."""

    job: str
    run: str
    name: str
    user: str
    was: list[SlotView]
    to: list[SlotView]


@frozen
class AdviceView:
    """What would let one waiting job in. found: false if no such moves were found, and reason says how sure that is. No
    moves: there is room, and it only waits for its turn. placement: of the job, once the moves are made."""

    job: str
    name: str
    user: str
    position: int
    wants: str
    found: bool
    reason: str
    moves: list[MoveView]
    placement: list[SlotView]


@frozen
class AdviceList:
    """advice: by place in the queue. waiting: how many jobs wait. movable: how many runs may be moved."""

    advice: list[AdviceView]
    waiting: int
    movable: int


@frozen
class NodeSpecView:
    owner: str
    drain: bool
    gone: bool


@frozen
class AdminNodeView:
    """spec: what an operator has declared; owner: as it holds now."""

    name: str
    owner: str
    state: str
    reason: str
    drain: bool
    gpus: list[GpuView]
    spec: NodeSpecView
    version: str


@frozen
class AdminNodes:
    nodes: list[AdminNodeView]


@frozen
class EntryView:
    """One posting: amount into (negative: out of) account, in credits."""

    seq: int
    at: str | None
    account: str
    job: str
    run: str
    kind: str
    amount: str
    memo: str
    ran_ms: int


@frozen
class Usage:
    """cursor: give it as `after` to read on."""

    entries: list[EntryView]
    cursor: int


@frozen
class StatementView:
    """opening + the sums of kinds = closing."""

    account: str
    opening: str
    kinds: dict[str, str]
    closing: str


@frozen
class StatementsView:
    """month: of the zone, from begin on and before end. One for each account of the caller."""

    month: str
    zone: str
    begin: str | None
    end: str | None
    statements: list[StatementView]


@frozen
class BudgetView:
    """Of a month in that zone. monthly: the most that may be spent in it, null: no bound. spent: so far. resets: when the next one
    begins."""

    month: str
    zone: str
    monthly: str | None
    spent: str
    resets: str | None = None


@frozen
class AccountView:
    """held: set aside for unfinished jobs. available: what a new hold may take, of the balance and of the month's budget."""

    user: str
    plan: str
    balance: str
    held: str
    available: str
    credits_enabled: bool
    budget: BudgetView


@frozen
class OwnNodeView:
    """runs: that hold slots there now."""

    node: NodeView
    runs: int


@frozen
class EarningsView:
    """today, month: earned so far in this day and month of UTC. ever: since the beginning. paid_out: of it."""

    balance: str
    today: str
    month: str
    ever: str
    paid_out: str


@frozen
class ProviderStatus:
    """Of the caller's own hardware. earned: None where credits are off."""

    nodes: list[OwnNodeView]
    runs: int
    total_mib: int
    booked_mib: int
    earned: EarningsView | None


@frozen
class DependencyView:
    """detail: why it does not answer."""

    name: str
    ok: bool
    detail: str


@frozen
class RoundView:
    """The newest of its kind in this process. took_ms: how long it took. said: what it did, or why it was cut short."""

    name: str
    at: str | None
    took_ms: int
    said: str


@frozen
class QuarantinedView:
    """VRAM that a run may still use, on a node that can't be asked."""

    node: str
    gpu: int
    mib: int
    run: str


@frozen
class ArrearsView:
    """What is owed for workloads that went while the credit service was away. debts: how many; users: of how many.
    credits: what they can come to at most. oldest: since when the oldest is owed, null if there is none."""

    debts: int
    users: int
    credits: str
    oldest: str | None


@frozen
class ChargingView:
    """As the newest billing round left it. taken: when the newest round began whose charges were all taken, null before the
    first. away: why the newest was cut short, "" if it was not. uncharged: of the hundred users who have most, at
    most what each has run up since. limit: above it his new work waits."""

    taken: str | None
    away: str
    uncharged: dict[str, str]
    limit: str


@frozen
class AdminHealth:
    """ok: every dependency answers, nothing is in arrears and new work would run. reasons: why it would not. drift: where node
    records and workloads disagree. arrears, charging: null without credits, or if they can't be read."""

    ok: bool
    reasons: list[str]
    dependencies: list[DependencyView]
    rounds: list[RoundView]
    drift: list[str]
    quarantine: list[QuarantinedView]
    arrears: ArrearsView | None
    charging: ChargingView | None


@frozen
class Health:
    status: str
    version: str


@frozen
class Readiness:
    """reasons: why new work would not run now."""

    ready: bool
    reasons: list[str]


@frozen
class Versions:
    """sdk_min: the oldest client version that is served."""

    server: str
    sdk_min: str
    python: str
    cloudpickle: str
    ray: str


@frozen
class Problem:
    """An error (RFC 9457). field, value and remedy are there when known; each error class adds its facts."""

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    value: str | None = None
    remedy: str | None = None


def slots(placement: Placement, fleet: Fleet) -> list[SlotView]:
    return [SlotView(slot.node, slot.gpu, slot.mib.n, *_of_gpu(fleet, slot.node, slot.gpu)) for slot in placement]


def _of_gpu(fleet: Fleet, node: str, index: int) -> tuple[str, str]:
    try:
        return fleet.gpu(node, index).model, fleet.owner(node)
    except NotFound:
        return "", ""


def job_view(job: Job, fleet: Fleet, position: int, ahead: int = 0, ends: Instant | None = None) -> JobView:
    """position: in the queue as the live copy knows it, 0 if it does not wait. ahead: earlier jobs for the same GPUs.
    ends: when the money for it ends, if that is known."""
    status, run = job.status, job.status.run
    reason, message = verdict(job)
    ended = run is not None and run.state is RunState.ENDED
    return JobView(
        id=job.id,
        name=job.spec.name,
        user=job.spec.user,
        phase=status.phase.value,
        reason=reason,
        message=message,
        waiting=waiting(job, fleet, ahead),
        position=position if status.phase is Phase.PENDING else 0,
        attempt=status.attempt,
        created_at=instant(job.created_at),
        started_at=instant(run.started_at) if run is not None else None,
        finished_at=instant(run.ended_at) if run is not None and ended and status.phase in TERMINAL | {Phase.CLOSING} else None,
        ran_ms=sum(fleet.ran(each).ms for each in status.runs),
        setup=setup(job),
        placement=slots(run.placement, fleet) if run is not None else [],
        conditions=[ConditionView(each.type, each.status.value, each.reason, each.message, instant(each.at)) for each in status.conditions],
        rate_per_hour=_rate(run.price) if run is not None else None,
        tariff=run.price.tariff if run is not None and run.price.lines else None,
        hold=str(job.spec.hold),
        held=str(held(job)),
        charged=str(charged(job, fleet)),
        cap=str(job.spec.cap) if job.spec.cap is not None else None,
        money_ends_at=instant(ends),
        exit=exit_view(run),
        result=ResultView(status.result.size, status.result.sha256, status.result.raised) if status.result is not None else None,
        cancel_requested_at=instant(status.cancel),
        labels=job.spec.labels,
    )


def brief(view: JobView) -> JobView:
    """The same without the long texts of its exit, for lists."""
    return view if view.exit is None else evolve(view, exit=evolve(view.exit, traceback="", log_tail=""))


def verdict(job: Job) -> tuple[str, str]:
    """Reason and message: of the end, or of what will lead to it."""
    status = job.status
    if status.cancel is not None and status.phase in (Phase.PENDING, Phase.ALLOCATED, Phase.RUNNING):
        return "Cancelling", f"Its end was asked for by {who_cancels(job)}; it is Cancelled when all of its processes are gone."
    stored = status.condition(RESULT_STORED)
    if status.phase is Phase.CLOSING and stored is not None and stored.status is ConditionStatus.FALSE:
        return stored.reason, stored.message
    return status.reason, status.message


def held(job: Job) -> Credits:
    """What is still set aside for it."""
    status = job.status
    given_back = status.phase in TERMINAL or status.holds(HOLD_VOIDED)
    return job.spec.hold if job.spec.billed and status.holds(FUNDED) and not given_back else Credits(0)


def charged(job: Job, fleet: Fleet) -> Credits:
    """What it has cost: the bill's total once it has ended, before that what a billing round would post now."""
    if job.status.phase in TERMINAL or not job.spec.billed:
        return job.status.charged
    return sum((cost(run.price, fleet.ran(run)) for run in job.status.runs), start=Credits(0))


def setup(job: Job) -> str:
    return job.status.message if job.status.phase is Phase.ALLOCATED else ""


def exit_view(run: Run | None) -> ExitView | None:
    if run is None or run.exit is None:
        return None
    said: Exit = run.exit
    return ExitView(said.kind.value, said.code, said.signal, said.oom, said.message, said.traceback, said.log_tail)


def _rate(price: Price) -> str:
    total = sum((line.rate.fraction for line in price.lines), start=Rate(0).fraction)
    return hourly(Rate.of(total))
