"""Stores of node records, tariffs and the epoch in lock-step with the plain ones in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from adapters.sqlite.epochs import SqliteEpochs
from adapters.sqlite.nodes import SqliteNodes
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.tariffs import SqliteTariffs
from ports.errors import GridweaveError
from ports.nodes import NodeRecord, NodeSpec, NodeStatus
from ports.tariffs import Tariff
from ports.units import Instant
from tests.memory.epochs import MemoryEpochs
from tests.memory.nodes import MemoryNodes
from tests.memory.tariffs import MemoryTariffs

Pair = tuple[NodeRecord, NodeRecord]


def outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except GridweaveError as error:
        return type(error)


class SmallStoresMachine(RuleBasedStateMachine):
    pairs = Bundle("pairs")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.models = MemoryNodes(), MemoryTariffs(), MemoryEpochs()
        self.open()

    def open(self) -> None:
        self.database = open_gridweave(Path(self.folder.name))
        self.stores = SqliteNodes(self.database), SqliteTariffs(self.database), SqliteEpochs(self.database)

    @rule()
    def restart(self) -> None:
        self.database.close()
        self.open()

    @rule(target=pairs, name=st.sampled_from(["n1", "n2"]))
    def meet(self, name: str) -> Pair:
        return self.models[0].get(name) or NodeRecord(name), self.stores[0].get(name) or NodeRecord(name)

    @rule(target=pairs, pair=pairs, owner=st.sampled_from(["org", "provider:acme"]))
    def put_spec(self, pair: Pair, owner: str) -> object:
        first = outcome(lambda: self.models[0].put_spec(evolve(pair[0], spec=NodeSpec(owner))))
        return self.alike(first, outcome(lambda: self.stores[0].put_spec(evolve(pair[1], spec=NodeSpec(owner)))), pair)

    @rule(target=pairs, pair=pairs, reason=st.sampled_from(["x", "y"]))
    def put_status(self, pair: Pair, reason: str) -> object:
        first = outcome(lambda: self.models[0].put_status(evolve(pair[0], status=NodeStatus(reason=reason))))
        return self.alike(first, outcome(lambda: self.stores[0].put_status(evolve(pair[1], status=NodeStatus(reason=reason)))), pair)

    def alike(self, first: object, second: object, pair: Pair) -> object:
        if isinstance(first, NodeRecord) and isinstance(second, NodeRecord):
            assert evolve(first, version="") == evolve(second, version="")
            return first, second
        assert first == second
        return pair

    @rule(name=st.sampled_from(["n1", "n2"]))
    def forget(self, name: str) -> None:
        self.models[0].delete(name)
        self.stores[0].delete(name)

    @rule(version=st.integers(0, 5), effective=st.integers(0, 5))
    def publish(self, version: int, effective: int) -> None:
        tariff = Tariff(version, Instant(effective), effective, version)
        assert outcome(lambda: self.models[1].publish(tariff)) == outcome(lambda: self.stores[1].publish(tariff))

    @rule(at=st.integers(-1, 6))
    def in_force(self, at: int) -> None:
        assert outcome(lambda: self.models[1].in_force(Instant(at))) == outcome(lambda: self.stores[1].in_force(Instant(at)))

    @rule(epoch=st.integers(0, 9), seen=st.integers(0, 9))
    def raise_epoch(self, epoch: int, seen: int) -> None:
        assert outcome(lambda: self.models[2].raise_to(epoch, seen)) == outcome(lambda: self.stores[2].raise_to(epoch, seen))

    @rule(by=st.integers(1, 3))
    def next_epoch(self, by: int) -> None:
        for epochs in (self.models[2], self.stores[2]):
            epochs.raise_to(epochs.read() + by, epochs.read())

    @invariant()
    def both_hold_the_same(self) -> None:
        assert [evolve(each, version="") for each in self.models[0].list()] == [evolve(each, version="") for each in self.stores[0].list()]
        assert self.models[1].history() == self.stores[1].history()
        assert self.models[2].read() == self.stores[2].read()

    def teardown(self) -> None:
        self.database.close()
        self.folder.cleanup()


def test_the_stores_are_in_lock_step_with_their_models() -> None:
    """Combinations that nobody thought of: stale halves, forgotten nodes, restarts."""
    run_state_machine_as_test(SmallStoresMachine, settings=settings(max_examples=settings().max_examples // 4, stateful_step_count=30))
