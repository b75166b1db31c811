"""What a charge says to whoever meters. Its id is the same for the same run, kind and time of running, so that it counts once."""

from __future__ import annotations

from collections.abc import Sequence

from ports.credits import Charge, ChargeAnswer, ChargeState, user_account
from ports.metering import Usage
from ports.units import Credits, Instant

TICK, FINAL = "tick", "final"


def usage_of(charge: Charge, kind: str, now: Instant) -> Usage:
    total = Credits(sum(each.micro for each in charge.totals.values()))
    user = charge.payer.removeprefix(user_account(""))
    return Usage(f"{charge.uid}/{charge.run}/{kind}/{charge.until.ms}", now, user, charge.run, kind, charge.until, total)


def final_usage(charges: Sequence[Charge], answers: Sequence[ChargeAnswer], now: Instant) -> list[Usage]:
    """Of those that were not refused."""
    return [
        usage_of(charge, FINAL, now) for charge, answer in zip(charges, answers, strict=True) if answer.state is not ChargeState.REFUSED
    ]
