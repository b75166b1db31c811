"""What a run has cost so far, and who has earned it: a function of its price and its `ran`, of nothing else.

Per owner one floor of the exact fraction of rate x ran; that amount is then split by nested two-way floors: the
payee gets floor(amount x share), the platform the rest. Both are monotone in `ran`, so that totals never fall, and
they are totals, not increments: how often and when they are posted changes nothing.
"""

from __future__ import annotations

from ports import budgets
from ports.credits import PLATFORM, Charge, owner_account, user_account
from ports.tariffs import PPM, Price
from ports.units import Credits, Span
from ports.workloads import Job, RunState


def totals(price: Price, ran: Span) -> dict[str, Credits]:
    """Amounts so far per credited account. An account that has earned nothing yet is left out."""
    earned: dict[str, int] = {}
    for line in price.lines:
        amount = line.rate.prorate_floor(ran).micro
        payee = amount * (PPM - line.fee_ppm) // PPM
        for account, part in ((owner_account(line.owner), payee), (PLATFORM, amount - payee)):
            earned[account] = earned.get(account, 0) + part
    return {account: Credits(micro) for account, micro in earned.items() if micro}


def cost(price: Price, ran: Span) -> Credits:
    """What the user owes so far: the sum of the totals."""
    return budgets.cost(price, ran)


def final_charges(job: Job) -> tuple[Charge, ...]:
    """One for each run that ran."""
    return tuple(
        Charge(run.id, job.uid, user_account(job.spec.user), run.ran, totals(run.price, run.ran))
        for run in job.status.runs
        if run.state is RunState.ENDED and run.ran > Span(0)
    )
