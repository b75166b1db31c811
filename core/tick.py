"""The billing tick: totals so far of everything that runs, posted in few requests.

It reads running times from the node records and prices from the objects; no clock, no tariff. Any number of
billers at once post the same totals, and a total that is posted twice is posted once. Then the arrears: what ended
and went while the credit service was away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice

from attrs import evolve, frozen

from core.arrears import Refusal, collect
from core.charges import totals
from core.each_job import each_job
from core.exposure import note_cut_short, note_taken
from core.house import House
from core.inventory import running_times
from core.shortfall import RAISE, anew
from core.usage import TICK, usages
from ports.budgets import cost, step
from ports.credits import ISSUE, Charge, ChargeAnswer, ChargeState, user_account
from ports.errors import Conflict, Unavailable
from ports.months import Month
from ports.units import Credits, Instant, Span
from ports.workloads import BUDGET, LOW_BALANCE, ConditionStatus, Job, JobFilter, JobStatus, Phase, RunState

Why = tuple[str, str]  # reason and message of the end
BALANCE: Why = ("BalanceExhausted", "Ended because the balance was used up. Top up and submit again.")
BATCH = 2_000  # charges in one request
_HOLDING = JobFilter(phases=frozenset({Phase.ALLOCATED, Phase.RUNNING}))
_UNSETTLED = JobFilter(phases=frozenset({Phase.ALLOCATED, Phase.RUNNING, Phase.CLOSING}))
_FLAGGED = frozenset({Phase.PENDING, Phase.ALLOCATED, Phase.RUNNING})


@frozen
class Alarm:
    """A charge that was refused: a bug somewhere. run: as text. why: in words."""

    workload: str
    run: str
    user: str
    why: str


@frozen
class CapStep:
    """A job whose cap is spent by so many per cent or more, told once for each of 50, 80 and 100."""

    workload: str
    user: str
    percent: int
    charged: Credits
    cap: Credits


@frozen
class MonthStep:
    """A user who has spent so many per cent or more of his cap of this month, told once for each of 50, 80 and 100."""

    user: str
    percent: int
    left: Credits


@frozen
class Ticked:
    """What one round did. caps: steps of jobs' caps. months: of users' caps. arrears: debts that were paid.

    posted: charges that changed something. refused: alarms. flagged: jobs whose user has run dry."""

    runs: int = 0
    posted: int = 0
    stale: int = 0
    refused: tuple[Alarm, ...] = ()
    flagged: int = 0
    caps: tuple[CapStep, ...] = ()
    months: tuple[MonthStep, ...] = ()
    arrears: int = 0


def tick(house: House) -> Ticked:
    """One billing round. Raises Unavailable; whatever was posted by then is posted, and the next round catches up."""
    if not house.terms.credits_enabled:
        return Ticked()
    began, records = house.clock.now(), house.nodes.list()
    unmetered: list[Unavailable] = []
    try:
        done = _charge_all(house, {record.name: record.status.ran for record in records}, unmetered)
        owed = collect(house)
        if not done.runs:  # nobody was asked, and what has ended may wait for an answer
            house.credits.account(ISSUE)
    except Unavailable as error:
        with suppress(Unavailable):  # then the one that is there holds
            note_cut_short(house, each_job(house, _UNSETTLED), running_times(records), str(error))
        raise
    note_taken(house, began, {refusal.debt.uid: refusal.debt for refusal in owed.refused}.values())
    if unmetered:
        raise unmetered[0]
    return evolve(done, arrears=owed.paid, refused=done.refused + tuple(map(_of_debt, owed.refused)))


def _charge_all(house: House, ran: Mapping[str, Mapping[str, Span]], unmetered: list[Unavailable]) -> Ticked:
    """What runs. ran: by node and run, as text. unmetered: takes up what metering said, if it did not answer."""
    dry, counted = dict[str, Why](), Counter[ChargeState]()
    refused: list[Alarm] = []
    caps: list[CapStep] = []
    months: list[MonthStep] = []
    charges = _charges(house, ran)
    while batch := list(islice(charges, BATCH)):
        answers = house.credits.charge([charge for charge, _ in batch])
        try:
            house.metering.record(usages([charge for charge, _ in batch], answers, TICK, house.clock.now()))
        except Unavailable as error:  # whoever has run dry is flagged all the same
            unmetered.append(error)
        for (charge, job), answer in zip(batch, answers, strict=True):
            counted[answer.state] += 1
            if why := _dry(job, answer, Month.of(house.clock.now())):
                dry.setdefault(job.spec.user, why)
            if answer.step and answer.left is not None:
                months.append(MonthStep(job.spec.user, answer.step, answer.left))
            if job.spec.cap is not None:
                caps += _tell_of_cap(house, job, answer)
            if answer.state is ChargeState.REFUSED:
                refused.append(Alarm(job.id, str(charge.run), job.spec.user, answer.detail))
    flagged = sum(_flag(house, user, why) for user, why in sorted(dry.items()))
    posted, stale = counted[ChargeState.POSTED], counted[ChargeState.STALE]
    return Ticked(counted.total(), posted, stale, tuple(refused), flagged, tuple(caps), tuple(months))


def _of_debt(refusal: Refusal) -> Alarm:
    return Alarm(refusal.debt.workload, refusal.run, refusal.debt.payer.removeprefix(user_account("")), refusal.why)


def _charges(house: House, ran: Mapping[str, Mapping[str, Span]]) -> Iterator[tuple[Charge, Job]]:
    """ran: by node and run, as text. Only a run's own nodes count: another's record may still tell of an ended one of its name."""
    for job in each_job(house, _HOLDING):
        run = job.status.run
        if run is None or run.state is RunState.ENDED or not job.spec.billed:
            continue
        nodes = dict.fromkeys(slot.node for slot in run.placement)
        span = max((ran.get(node, {}).get(str(run.id), Span(0)) for node in nodes), default=Span(0))
        if span > Span(0):
            yield Charge(run.id, job.uid, user_account(job.spec.user), span, totals(run.price, span)), job


def _tell_of_cap(house: House, job: Job, answer: ChargeAnswer) -> tuple[CapStep, ...]:
    """In the job's status. A conflict is left to the next round."""
    charged = sum((cost(run.price, run.ran) for run in job.status.runs[:-1]), start=answer.charged)
    marked = budget_told(job, charged, house.clock.now())
    if marked is None or job.spec.cap is None:
        return ()
    try:
        house.workloads.replace(evolve(job, status=marked))
    except Conflict:
        return ()
    return (CapStep(job.id, job.spec.user, step(charged, job.spec.cap), charged, job.spec.cap),)


def budget_told(job: Job, charged: Credits, now: Instant) -> JobStatus | None:
    """The status that says which part of the cap is spent; None if it says so already, or there is nothing to say."""
    cap = job.spec.cap
    if cap is None or not (percent := step(charged, cap)):
        return None
    reason, known = f"Spent{percent}", job.status.condition(BUDGET)
    if known is not None and known.reason == reason:
        return None
    message = f"{charged} of at most {cap} credits are spent: {percent} per cent or more."
    return job.status.with_condition(BUDGET, ConditionStatus.TRUE, now, reason, message)


def _dry(job: Job, answer: ChargeAnswer, month: Month) -> Why | None:
    """Why its user's work must end now, if it must. What costs nothing needs nothing: only a debt stands against it, as
    against its hold."""
    run = job.status.run
    needed = Credits(1 if run is not None and any(line.rate.numerator for line in run.price.lines) else 0)
    if answer.balance < needed:
        return BALANCE
    return _month_spent(answer, month) if answer.left is not None and answer.left < needed else None


def _month_spent(answer: ChargeAnswer, month: Month) -> Why:
    """A service that is a release older does not say of what there is nothing left."""
    amount = f" of {answer.cap} credits" if answer.cap is not None else ""
    return "BudgetExhausted", f"Ended because its user's budget{amount} for {month} is used up; the balance is not. {RAISE}. {anew(month)}"


def _flag(house: House, user: str, why: Why) -> int:
    """Flag what a user still has, so that the scheduler ends it. A conflict is left to the next round."""
    flagged = 0
    for job in each_job(house, JobFilter(user=user, phases=_FLAGGED)):
        if job.status.holds(LOW_BALANCE) or not job.spec.billed:
            continue
        marked = job.status.with_condition(LOW_BALANCE, ConditionStatus.TRUE, house.clock.now(), *why)
        try:
            house.workloads.replace(evolve(job, status=marked))
        except Conflict:
            continue
        flagged += 1
    return flagged
