"""What a charge says to whoever meters. Its id is the same for the same run, kind and time of running, so that it counts once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ports.budgets import STEPS, step
from ports.credits import Charge, ChargeAnswer, ChargeState, user_account
from ports.metering import Usage
from ports.units import Credits, Instant

TICK, FINAL, BUDGET = "tick", "final", "budget"


def usage_of(charge: Charge, kind: str, now: Instant) -> Usage:
    total = Credits(sum(each.micro for each in charge.totals.values()))
    user = charge.payer.removeprefix(user_account(""))
    return Usage(f"{charge.uid}/{charge.run}/{kind}/{charge.until.ms}", now, user, charge.run, kind, charge.until, total)


def usages(charges: Sequence[Charge], answers: Sequence[ChargeAnswer], kind: str, now: Instant) -> list[Usage]:
    """Of those that were not refused, and which steps of a month's cap are reached by now: in every answer anew, since one that told
    so may have been lost."""
    made = {}
    for charge, answer in zip(charges, answers, strict=True):
        for each in _steps(charge, answer, now):
            made[each.id] = each
        if answer.state is not ChargeState.REFUSED:
            each = usage_of(charge, kind, now)
            made[each.id] = each
    return list(made.values())


def _steps(charge: Charge, answer: ChargeAnswer, now: Instant) -> Iterator[Usage]:
    if answer.cap is None or answer.left is None:
        return
    spent, user = answer.cap - answer.left, charge.payer.removeprefix(user_account(""))
    reached = step(spent, answer.cap)
    for percent in STEPS:
        if percent <= reached:
            name = f"{charge.payer}/{answer.month}/{BUDGET}/{percent}"
            yield Usage(name, now, user, charge.run, BUDGET, charge.until, spent, percent, answer.month)
