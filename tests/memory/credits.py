"""The credit service in a few dicts, written the plain way. For simulations and unit tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice

from attrs import evolve, frozen

from ports.budgets import STEPS, step
from ports.clock import Clock
from ports.credits import BEGINNING, END, SPENDING, Account, Charge, ChargeAnswer, ChargeState, Entry, HoldAnswer, HoldState, user_account
from ports.errors import Invalid, KeyReused, Refused
from ports.months import Month
from ports.units import Credits, Instant, Span
from ports.workloads import RunId

ZERO = Credits(0)


@frozen
class _Hold:
    account: str
    amount: Credits
    have: Credits
    open: bool


class MemoryCredits:
    """`ports.credits.OperatedCredits`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._journal: list[Entry] = []
        self._balances: dict[str, Credits] = {}
        self._plans: dict[str, str] = {}
        self._holds: dict[str, _Hold] = {}
        self._charges: dict[tuple[str, RunId], Charge] = {}
        self._posted: set[str] = set()
        self._by_month: dict[tuple[str, Month], Credits] = {}
        self._caps: dict[str, Credits] = {}
        self._told: set[tuple[str, Month, int]] = set()
        self._lock = threading.RLock()

    def set_plan(self, user: str, plan: str) -> Account:
        with self._lock:
            self._plans[user_account(user)] = plan
            return self.account(user_account(user))

    def account(self, name: str) -> Account:
        with self._lock:
            held = sum(hold.amount.micro for hold in self._holds.values() if hold.open and hold.account == name)
            balance, plan = self._balances.get(name, ZERO), self._plans.get(name, "")
            return Account(name, balance, Credits(held), plan, self._caps.get(name), self._spent(name))

    def set_cap(self, account: str, cap: Credits | None) -> Account:
        if cap is not None and cap < ZERO:
            raise Invalid(f"A cap of {cap} credits can't be.", "cap", "Give 0 or more, or none.", str(cap))
        with self._lock:
            self._caps.pop(account, None)
            if cap is not None:
                self._caps[account] = cap
            return self.account(account)

    def _spent(self, name: str) -> Credits:
        return self._by_month.get((name, Month.of(self._clock.now())), ZERO)

    def authorise(self, key: str, account: str, amount: Credits) -> HoldAnswer:
        if amount < ZERO:
            raise Invalid(f"A hold of {amount} credits can't be.", "amount", "Give 0 or more.", str(amount))
        with self._lock:
            have = self.account(account).available
            hold = self._holds.get(key)
            if hold is None:
                if have < amount:
                    return HoldAnswer(HoldState.REFUSED, amount, have)
                hold = self._holds[key] = _Hold(account, amount, have, True)
            if not hold.open:
                return HoldAnswer(HoldState.CLOSED, amount, have)
            if hold.account != account:
                raise KeyReused("This key holds credits of another account.", "key", "Take a fresh key for each hold.")
            return HoldAnswer(HoldState.OPEN, hold.amount, hold.have)

    def void(self, key: str) -> None:
        with self._lock:
            self._holds[key] = _Hold("", ZERO, ZERO, False)

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        with self._lock:
            return tuple(self._charge(each) for each in charges)

    def post(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        _check_posting(key, kind, lines)
        with self._lock:
            if key in self._posted:
                return False
            self._posted.add(key)
            self._append(kind, key, list(lines.items()), memo=memo)
            return True

    def capture(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        _check_posting(key, kind, lines)
        with self._lock:
            hold = self._holds.get(key)
            if hold is not None and not hold.open and key in self._posted:
                return False
            if hold is None or not hold.open:
                raise Refused("There is no open hold of that key.", "key")
            if -lines.get(hold.account, ZERO).micro > hold.amount.micro:
                raise Invalid("More would be captured than is held.", "lines")
            self.void(key)
            return self.post(key, kind, lines, memo)

    def journal(
        self, account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END
    ) -> tuple[Entry, ...]:
        with self._lock:
            found = (entry for entry in self._journal[after:] if entry.account == account and since <= entry.at < until)
            return tuple(islice(found, limit))

    def turnover(self, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
        with self._lock:
            found: dict[str, Credits] = {}
            for entry in self._journal:
                if entry.account == account and since <= entry.at < until:
                    found[entry.kind] = found.get(entry.kind, ZERO) + entry.amount
            return found

    # ------------------------------------------------------------ inside the lock

    def _charge(self, charge: Charge) -> ChargeAnswer:
        highest = self._charges.get((charge.uid, charge.run))
        charged = _sum(highest.totals) if highest else ZERO
        balance = self._balances.get(charge.payer, ZERO)
        if any(total < ZERO for total in charge.totals.values()) or charge.until.ms < 0:
            return self._capped(charge.payer, ChargeAnswer(ChargeState.REFUSED, balance, charged, "a total or until is below 0"))
        if highest is not None:
            if charge.until <= highest.until:
                return self._capped(charge.payer, ChargeAnswer(ChargeState.STALE, balance, charged))
            if charge.payer != highest.payer or any(charge.totals.get(name, ZERO) < total for name, total in highest.totals.items()):
                why = "the payer is another, or a total is lower than before"
                return self._capped(charge.payer, ChargeAnswer(ChargeState.REFUSED, balance, charged, why))
        before = highest.totals if highest else {}
        grown = [(name, total - before.get(name, ZERO)) for name, total in sorted(charge.totals.items())]
        lines = [(charge.payer, -_sum(dict(grown))), *(line for line in grown if line[1] != ZERO)]
        self._append("charge", charge.uid, lines, run=str(charge.run), until=charge.until)
        self._charges[charge.uid, charge.run] = charge
        return self._capped(charge.payer, ChargeAnswer(ChargeState.POSTED, self._balances[charge.payer], _sum(charge.totals)))

    def _capped(self, payer: str, answer: ChargeAnswer) -> ChargeAnswer:
        cap, month = self._caps.get(payer), Month.of(self._clock.now())
        if cap is None:
            return answer
        spent = self._spent(payer)
        new = [each for each in STEPS if each <= step(spent, cap) and (payer, month, each) not in self._told]
        if answer.state is ChargeState.POSTED:
            self._told |= {(payer, month, each) for each in new}
        told = max(new, default=0) if answer.state is ChargeState.POSTED else 0
        return evolve(answer, left=cap - spent, step=told, cap=cap, month=str(month))

    def _append(self, kind: str, key: str, lines: list[tuple[str, Credits]], run: str = "", until: Span = Span(0), memo: str = "") -> None:
        at: Instant = self._clock.now()
        transaction = self._journal[-1].transaction + 1 if self._journal else 1
        for account, amount in lines:
            self._journal.append(Entry(len(self._journal) + 1, at, transaction, account, amount, kind, key, run, until, memo))
            self._balances[account] = self._balances.get(account, ZERO) + amount
            if kind in SPENDING and amount < ZERO and account.startswith(user_account("")):
                month = Month.of(at)
                self._by_month[account, month] = self._by_month.get((account, month), ZERO) - amount


def _check_posting(key: str, kind: str, lines: dict[str, Credits]) -> None:
    if kind == "charge" or not kind or not key:
        raise Refused("A one-off posting needs a key, and a kind other than charge.", "kind")
    if not lines or sum(amount.micro for amount in lines.values()) != 0:
        raise Invalid("A posting has lines, and they sum to zero.", "lines")


def _sum(totals: dict[str, Credits]) -> Credits:
    return Credits(sum(total.micro for total in totals.values()))
