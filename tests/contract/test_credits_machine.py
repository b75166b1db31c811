"""A credit service in lock-step with the plain one in memory, and the laws of money after every step.

A later service joins by a subclass that opens it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from ports.credits import Charge, ChargeAnswer, CreditService, Entry
from ports.errors import GridweaveError
from ports.units import Credits, Span
from ports.workloads import RunId
from tests.memory.clock import ManualClock
from tests.memory.credits import MemoryCredits

ACCOUNTS = ("issue", "org", "platform", "provider:acme", "user:alice", "user:bob")
AMOUNTS = st.integers(-2, 60)
KEYS = st.sampled_from(["k1", "k2", "k3", "k4"])
CHARGES = st.builds(
    Charge,
    st.builds(RunId, st.just("job-1"), st.integers(1, 2)),
    st.sampled_from(["uid-1", "uid-2"]),
    st.sampled_from(["user:alice", "user:alice", "user:alice", "user:bob", "provider:acme"]),
    st.builds(Span, st.integers(-1, 40)),
    st.dictionaries(st.sampled_from(["org", "platform", "provider:acme"]), st.builds(Credits, AMOUNTS)),
)


def outcome(call: Callable[[], object]) -> object:
    """What a call gave, or the class of its refusal; the words of a refused charge are each service's own."""
    try:
        found = call()
    except GridweaveError as error:
        return type(error)
    if isinstance(found, tuple):
        return [
            (each.state, each.balance, each.charged, each.left, each.step, each.cap, each.month) if isinstance(each, ChargeAnswer) else each
            for each in found
        ]
    return found


class CreditsMachine(RuleBasedStateMachine):
    """Subclasses give `self.service`, an empty one, and set `self.clock` as its clock, in their `__init__`."""

    service: CreditService

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.model = MemoryCredits(self.clock)

    def both(self, call: Callable[[CreditService], object]) -> None:
        assert outcome(lambda: call(self.model)) == outcome(lambda: call(self.service))

    @rule(key=KEYS, to=st.sampled_from(ACCOUNTS[1:]), amount=AMOUNTS, off=st.sampled_from([0, 0, 0, 1]))
    def post(self, key: str, to: str, amount: int, off: int) -> None:
        self.both(lambda service: service.post(key, "grant", {"issue": Credits(off - amount), to: Credits(amount)}, "memo"))

    @rule(key=KEYS, account=st.sampled_from(["user:alice", "user:bob"]), amount=AMOUNTS)
    def authorise(self, key: str, account: str, amount: int) -> None:
        self.both(lambda service: service.authorise(key, account, Credits(amount)))

    @rule(account=st.sampled_from(["user:alice", "user:bob"]), cap=st.none() | st.integers(-1, 200))
    def cap(self, account: str, cap: int | None) -> None:
        self.both(lambda service: service.set_cap(account, Credits(cap) if cap is not None else None))

    @rule(key=KEYS)
    def void(self, key: str) -> None:
        self.both(lambda service: service.void(key))

    @rule(key=KEYS, account=st.sampled_from(["user:alice", "user:bob"]), amount=AMOUNTS)
    def capture(self, key: str, account: str, amount: int) -> None:
        self.both(lambda service: service.capture(key, "call", {account: Credits(-amount), "platform": Credits(amount)}, "memo"))

    @rule(account=st.sampled_from(ACCOUNTS), since=st.integers(0, 2000), length=st.integers(0, 2000))
    def turnover(self, account: str, since: int, length: int) -> None:
        began = ManualClock().now() + Span(since)
        self.both(lambda service: service.turnover(account, began, began + Span(length)))

    @rule(charges=st.lists(CHARGES, max_size=5))
    def charge(self, charges: list[Charge]) -> None:
        self.both(lambda service: service.charge(charges))

    @rule(account=st.sampled_from(ACCOUNTS), after=st.integers(0, 30), limit=st.integers(1, 5))
    def read(self, account: str, after: int, limit: int) -> None:
        self.both(lambda service: service.journal(account, after, limit))

    @rule(ms=st.integers(0, 1000))
    def wait(self, ms: int) -> None:
        self.clock.advance(Span(ms))

    @invariant()
    def both_hold_the_same(self) -> None:
        assert [self.model.account(name) for name in ACCOUNTS] == [self.service.account(name) for name in ACCOUNTS]

    @invariant()
    def money_is_neither_made_nor_lost(self) -> None:
        entries: list[Entry] = [entry for name in ACCOUNTS for entry in self.service.journal(name)]
        assert 0 == sum(entry.amount.micro for entry in entries)
        for name in ACCOUNTS:
            assert sum(entry.amount.micro for entry in entries if entry.account == name) == self.service.account(name).balance.micro


class SqliteMachine(CreditsMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.open()

    def open(self) -> None:
        self.database = open_credits(Path(self.folder.name))
        self.service: SqliteCredits = SqliteCredits(self.database, self.clock)

    @rule()
    def restart(self) -> None:
        self.database.close()
        self.open()

    @invariant()
    def the_journal_is_proved(self) -> None:
        assert "" == self.service.verify().fault

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()


@pytest.mark.parametrize("machine", [SqliteMachine])
def test_a_service_is_in_lock_step_with_the_model(machine: type[CreditsMachine]) -> None:
    """Combinations that nobody thought of: replays across restarts, two charges of one run in a call, payers that are paid."""
    run_state_machine_as_test(machine, settings=settings(max_examples=settings().max_examples // 4, stateful_step_count=30))
