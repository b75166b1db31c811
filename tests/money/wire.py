"""A credit service behind a wire that loses, delays and doubles, and processes that die while they wait for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from attrs import define, field

from ports.credits import BEGINNING, END, Account, Charge, ChargeAnswer, ChargeState, CreditService, Entry, HoldAnswer
from ports.errors import Unavailable
from ports.metering import Metering, Usage
from ports.units import Credits, Instant

T = TypeVar("T")
DELAYED = 16  # calls that may be on their way at once


class Crash(BaseException):
    """The process that called is dead: nothing in core may catch it."""


@define
class Wire:
    """share: of calls that go wrong somehow. late: calls that will still arrive, in any order. rises: the highest total that
    was answered for each run, so that one that falls is seen at once."""

    source: random.Random
    share: float
    late: list[Callable[[], Any]] = field(factory=list)
    rises: dict[tuple[str, str], int] = field(factory=dict)
    mishaps: dict[str, int] = field(factory=dict)

    def carry(self, call: Callable[[], T]) -> T:
        if self.source.random() >= self.share:
            return call()
        kind = self.source.choice(("lost", "dropped", "doubled", "late", "dies", "died"))
        self.mishaps[kind] = self.mishaps.get(kind, 0) + 1
        if kind == "doubled":
            call()
            return call()
        if kind in ("lost", "died"):
            call()
        if kind == "late" and len(self.late) < DELAYED:
            self.late.append(call)
        if kind in ("dies", "died"):
            raise Crash
        raise Unavailable("the credit service", kind)

    def deliver(self) -> None:
        """One of the calls that are on their way arrives, whoever waits for its answer."""
        if self.late:
            self.late.pop(self.source.randrange(len(self.late)))()


@define
class WiredCredits:
    """`ports.credits.CreditService`."""

    real: CreditService
    wire: Wire

    def account(self, name: str) -> Account:
        return self.real.account(name)

    def set_cap(self, account: str, cap: Credits | None) -> Account:
        return self.real.set_cap(account, cap)

    def authorise(self, key: str, account: str, amount: Credits) -> HoldAnswer:
        return self.wire.carry(lambda: self.real.authorise(key, account, amount))

    def void(self, key: str) -> None:
        self.wire.carry(lambda: self.real.void(key))

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        return self.wire.carry(lambda: self._charge(tuple(charges)))

    def _charge(self, charges: tuple[Charge, ...]) -> tuple[ChargeAnswer, ...]:
        answers = self.real.charge(charges)
        for charge, answer in zip(charges, answers, strict=True):
            assert answer.state is not ChargeState.REFUSED, answer
            key = (charge.uid, str(charge.run))
            assert answer.charged.micro >= self.wire.rises.get(key, 0), f"the total of {charge.run} shrinks"
            self.wire.rises[key] = answer.charged.micro
        return answers

    def post(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        return self.wire.carry(lambda: self.real.post(key, kind, lines, memo))

    def capture(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        return self.wire.carry(lambda: self.real.capture(key, kind, lines, memo))

    def journal(
        self, account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END
    ) -> tuple[Entry, ...]:
        return self.real.journal(account, after, limit, since, until)

    def turnover(self, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
        return self.real.turnover(account, since, until)


@define
class WiredMetering:
    """`ports.metering.Metering`."""

    real: Metering
    wire: Wire

    def record(self, usage: Sequence[Usage]) -> None:
        self.wire.carry(lambda: self.real.record(usage))
