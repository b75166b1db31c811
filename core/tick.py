"""The billing tick: totals so far of everything that runs, posted in few requests.

It reads running times from the node records and prices from the objects; no clock, no tariff. Any number of
billers at once post the same totals, and a total that is posted twice is posted once. Then the arrears: what ended
and went while the credit service was away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from attrs import evolve, frozen

from core.arrears import Refusal, collect
from core.charges import totals
from core.house import House
from core.inventory import running_times
from ports.credits import Charge, ChargeAnswer, ChargeState, user_account
from ports.errors import Conflict, Unavailable
from ports.metering import Metering, Usage
from ports.units import Credits, Span
from ports.workloads import LOW_BALANCE, ConditionStatus, Job, JobFilter, Phase, RunState

BATCH = 500  # charges in one request
AT_ONCE = 5_000  # jobs in one answer: a store without an index reads everything for each
_HOLDING = JobFilter(phases=frozenset({Phase.ALLOCATED, Phase.RUNNING}))
_FLAGGED = frozenset({Phase.PENDING, Phase.ALLOCATED, Phase.RUNNING})


@frozen
class Alarm:
    """A charge that was refused: a bug somewhere. run: as text. why: in words."""

    workload: str
    run: str
    user: str
    why: str


@frozen
class Ticked:
    """What one round did. posted: charges that changed something. refused: alarms. flagged: jobs whose user has run dry.
    arrears: debts that were paid."""

    runs: int = 0
    posted: int = 0
    stale: int = 0
    refused: tuple[Alarm, ...] = ()
    flagged: int = 0
    arrears: int = 0


def tick(house: House, metering: Metering) -> Ticked:
    """One billing round. Raises Unavailable; whatever was posted by then is posted, and the next round catches up."""
    if not house.terms.credits_enabled:
        return Ticked()
    ran = running_times(house.nodes.list())
    result, dry, unmetered = Ticked(), set[str](), list[Unavailable]()
    charges = _charges(house, ran)
    while batch := list(islice(charges, BATCH)):
        answers = house.credits.charge([charge for charge, _ in batch])
        try:
            metering.record(_usage(house, batch, answers))
        except Unavailable as error:  # whoever has run dry is flagged all the same
            unmetered.append(error)
        for (charge, job), answer in zip(batch, answers, strict=True):
            if answer.balance <= Credits(0):
                dry.add(job.spec.user)
            result = evolve(
                result,
                runs=result.runs + 1,
                posted=result.posted + (answer.state is ChargeState.POSTED),
                stale=result.stale + (answer.state is ChargeState.STALE),
                refused=result.refused + _alarms(job, charge, answer),
            )
    result = evolve(result, flagged=sum(_flag(house, user) for user in sorted(dry)))
    owed = collect(house)
    if unmetered:
        raise unmetered[0]
    return evolve(result, arrears=owed.paid, refused=result.refused + tuple(map(_of_debt, owed.refused)))


def _of_debt(refusal: Refusal) -> Alarm:
    return Alarm(refusal.debt.workload, refusal.run, refusal.debt.payer.removeprefix(user_account("")), refusal.why)


def _alarms(job: Job, charge: Charge, answer: ChargeAnswer) -> tuple[Alarm, ...]:
    return (Alarm(job.id, str(charge.run), job.spec.user, answer.detail),) if answer.state is ChargeState.REFUSED else ()


def _charges(house: House, ran: dict[str, Span]) -> Iterator[tuple[Charge, Job]]:
    for job in jobs(house, _HOLDING):
        run = job.status.run
        if run is None or run.state is RunState.ENDED or not job.spec.billed:
            continue
        span = ran.get(str(run.id), Span(0))
        if span > Span(0):
            yield Charge(run.id, job.uid, user_account(job.spec.user), span, totals(run.price, span)), job


def jobs(house: House, which: JobFilter) -> Iterator[Job]:
    """All of them, a page at a time."""
    cursor = ""
    while True:
        page = house.workloads.list(which, cursor, AT_ONCE)
        yield from page.jobs
        cursor = page.cursor
        if not cursor:
            return


def _usage(house: House, batch: Sequence[tuple[Charge, Job]], answers: Sequence[ChargeAnswer]) -> list[Usage]:
    now = house.clock.now()
    return [
        Usage(f"{job.uid}/{charge.run}/{charge.until.ms}", now, job.spec.user, charge.run, "tick", charge.until, _sum(charge.totals))
        for (charge, job), answer in zip(batch, answers, strict=True)
        if answer.state is not ChargeState.REFUSED
    ]


def _sum(totals: dict[str, Credits]) -> Credits:
    return Credits(sum(each.micro for each in totals.values()))


def _flag(house: House, user: str) -> int:
    """Flag what a user still has, so that the scheduler ends it. A conflict is left to the next round."""
    flagged = 0
    for job in jobs(house, JobFilter(user=user, phases=_FLAGGED)):
        if job.status.holds(LOW_BALANCE) or not job.spec.billed:
            continue
        marked = job.status.with_condition(
            LOW_BALANCE, ConditionStatus.TRUE, house.clock.now(), "BalanceExhausted", "The balance is used up."
        )
        try:
            house.workloads.replace(evolve(job, status=marked))
        except Conflict:
            continue
        flagged += 1
    return flagged
