"""The moves of a job's status, each a pure function from one status to the next.

Whoever wants to know what `Running` means for the stored form reads it here. None of them decides when.
"""

from __future__ import annotations

from attrs import evolve

from ports.budgets import bound, cap_bound
from ports.cluster import RunReport
from ports.tariffs import Price
from ports.units import Credits, Instant, Span
from ports.workloads import (
    CANCEL_REQUESTED,
    CHARGED,
    HOLD_VOIDED,
    LOW_BALANCE,
    RESULT_STORED,
    ConditionStatus,
    Exit,
    ExitKind,
    Job,
    JobStatus,
    Phase,
    Placement,
    Result,
    Run,
    RunId,
    RunState,
)

GIVEN_UP = "GivenUp"
FREE = Price(0, ())  # of a run that nobody bills


def allocated(job: Job, placement: Placement, epoch: int, price: Price, now: Instant) -> JobStatus:
    """Booked: the next attempt, with the price that holds for it."""
    run = Run(RunId(job.id, job.status.attempt + 1), RunState.BOOKED, placement, epoch, price, now)
    return evolve(job.status.with_run(run), phase=Phase.ALLOCATED, waiting="", position=0, message="")


def setting_up(status: JobStatus, detail: str) -> JobStatus:
    """What its node does for it before it runs, for people."""
    return evolve(status, message=detail)


def running(status: JobStatus, now: Instant) -> JobStatus:
    """`go` may be given from now on, once."""
    run = _run(status)
    return evolve(status.with_run(evolve(run, state=RunState.RUNNING, started_at=now)), phase=Phase.RUNNING, message="")


def ended(job: Job, how: Exit, ran: Span, now: Instant, at_large: bool = False) -> JobStatus:
    """The run is over and its time is known: compute billing stops here. at_large: nobody can say that its processes are gone."""
    status = job.status
    run = evolve(_run(status), state=RunState.ENDED, ended_at=now, ran=max(ran, _run(status).ran), exit=how)
    outcome, reason, message = verdict(job, how, at_large)
    return closing(evolve(status.with_run(run)), outcome, reason, message)


def requeued(job: Job, how: Exit, now: Instant, why: str) -> JobStatus:
    """The run never started the user's code: the workload queues again, and another attempt will be made."""
    run = evolve(_run(job.status), state=RunState.ENDED, ended_at=now, exit=how)
    return evolve(job.status.with_run(run), phase=Phase.PENDING, waiting=why, message="")


def closing(status: JobStatus, outcome: Phase, reason: str, message: str = "") -> JobStatus:
    """Nothing is held any more; what remains is to be settled."""
    return evolve(status, phase=Phase.CLOSING, outcome=outcome, reason=reason, message=message, waiting="", position=0)


def stored(status: JobStatus, report: RunReport, now: Instant) -> JobStatus:
    """The agent has uploaded all that the run left."""
    found = report.result
    if found is None and _returned(status):
        return nothing_to_store(status, "NoResult", now)
    result = Result(found.key, found.size, found.sha256, found.raised) if found is not None else None
    return evolve(status.with_condition(RESULT_STORED, ConditionStatus.TRUE, now, "Stored"), result=result)


RESULT_PENDING = "ResultPending"
RESULT_LOST = "ResultLost"


def result_pending(status: JobStatus, why: str, now: Instant) -> JobStatus:
    """What the run left waits on its node, which asks the blob store again and again. Nothing is held or billed meanwhile."""
    message = f"It has ended, and what it left waits on its node until the blob store takes it. {why}"
    return status.with_condition(RESULT_STORED, ConditionStatus.FALSE, now, RESULT_PENDING, message)


def nothing_to_store(status: JobStatus, reason: str, now: Instant) -> JobStatus:
    """No agent will ever upload anything for it. A result that there was is lost, and so the job has failed; where its node could
    not keep it, its exit says why.

    GIVEN_UP: agents have it, and could not store it for as long as an operator lets them try.
    """
    waited = status.condition(RESULT_STORED)
    status = status.with_condition(RESULT_STORED, ConditionStatus.TRUE, now, reason)
    if not _returned(status):
        return status
    if reason == GIVEN_UP and waited is not None and waited.reason == RESULT_PENDING:
        message = f"It ran, but its result could not be stored in all that time and is given up. {waited.message}"
        return evolve(status, outcome=Phase.FAILED, reason=RESULT_PENDING, message=message)
    how = _run(status).exit
    message = (how.message if how is not None else "") or "It ran, but its result was lost before it could be stored."
    return evolve(status, outcome=Phase.FAILED, reason=RESULT_LOST, message=message)


def _returned(status: JobStatus) -> bool:
    how = _run(status).exit
    return how is not None and how.kind is ExitKind.RETURNED


def closed(status: JobStatus, charged: Credits, now: Instant, billed: bool, alarm: str = "") -> JobStatus:
    """Everything is settled: the terminal phase. alarm: why the final charge was refused, "" if it was not."""
    reason = "Posted" if billed else "NotBilled"
    if alarm:
        status = status.with_condition(CHARGED, ConditionStatus.FALSE, now, "Refused", alarm)
    else:
        status = status.with_condition(CHARGED, ConditionStatus.TRUE, now, reason)
    status = status.with_condition(HOLD_VOIDED, ConditionStatus.TRUE, now, "Voided" if billed else reason)
    return evolve(status, phase=status.outcome or Phase.FAILED, charged=charged)


def in_arrears(status: JobStatus, now: Instant) -> JobStatus:
    """The terminal phase of what must go before it can be charged: it is owed, and charged later."""
    owed = "The credit service did not answer; it is charged when that is back."
    for kind in (CHARGED, HOLD_VOIDED):
        status = status.with_condition(kind, ConditionStatus.UNKNOWN, now, "InArrears", owed)
    return evolve(status, phase=status.outcome or Phase.FAILED)


ADMINISTRATOR = "Administrator"


def cancel_asked(status: JobStatus, now: Instant, by_admin: bool = False) -> JobStatus:
    """Its end is wanted. by_admin: by an administrator whose job it is not."""
    if by_admin:
        said = "An administrator has asked for its end."
        status = status.with_condition(CANCEL_REQUESTED, ConditionStatus.TRUE, now, ADMINISTRATOR, said)
    return evolve(status, cancel=now)


def who_cancels(job: Job) -> str:
    """In words, and by no name."""
    if job.status.holds(CANCEL_REQUESTED):
        return "an administrator"
    return "the deletion of its object" if job.leaving else "its user"


def verdict(job: Job, how: Exit, at_large: bool = False) -> tuple[Phase, str, str]:
    """The terminal phase that an exit leads to, its reason and what people are told.

    A function that returned has returned, also when a cancel or an empty balance came a moment before. And Cancelled
    says that every process is gone: of a run at large nobody can say that.
    """
    status = job.status
    if how.kind is ExitKind.RETURNED:
        return Phase.COMPLETED, "Returned", ""
    if status.cancel is not None and not at_large:
        return Phase.CANCELLED, "Cancelled", f"Cancelled by {who_cancels(job)}."
    if how.kind is ExitKind.KILLED and status.holds(LOW_BALANCE):
        return Phase.FAILED, *why_dry(status)
    if how.kind is ExitKind.KILLED and _by_cap(job):
        return Phase.FAILED, "BudgetExhausted", f"Ended because its cap of {job.spec.cap} credits was used up. Submit it with a higher one."
    if how.kind is ExitKind.KILLED:
        return Phase.FAILED, "MaxRuntime", how.message or "Ended because its max_hours were used up."
    reason = "OutOfMemory" if how.oom else str(how.kind)
    return Phase.FAILED, reason, how.message


def why_dry(status: JobStatus) -> tuple[str, str]:
    """Reason and message of an end for want of money, as whoever flagged it has said."""
    found = status.condition(LOW_BALANCE)
    reason, message = (found.reason, found.message) if found is not None else ("", "")
    return reason or "BalanceExhausted", message or "Ended because the balance was used up. Top up and submit again."


def _by_cap(job: Job) -> bool:
    """Whether it is the cap that ends it first."""
    capped = cap_bound(job)
    return capped is not None and capped == bound(job)


def _run(status: JobStatus) -> Run:
    run = status.run
    if run is None:
        raise ValueError("a job without a run has nothing to move on")
    return run
