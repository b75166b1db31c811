"""The ledger over long histories: amounts are conserved, and it chooses what the readable specification chooses.

One driver, two ways to drive it: Hypothesis, which shrinks a failure to the shortest history, and a plain seed, which
is thirty times faster. `LEDGER_STEPS` and `LEDGER_SEEDS` widen the second:

    LEDGER_STEPS=1000000 LEDGER_SEEDS=10 python -m pytest -s --timeout=0 tests/properties/test_ledger.py -k seeded
"""

import os
import random
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from core.fleet import LedgerView
from core.ledger import NoRoom, VramLedger
from core.owners import ORG_POOL, PROVIDERS_POOL, Pool
from core.packing import best_fit
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask, Placement, RunId, Slot

STEPS = int(os.environ.get("LEDGER_STEPS", "20000"))
SEEDS = int(os.environ.get("LEDGER_SEEDS", "1"))

NAMES = [f"n{at}" for at in range(8)]
OWNERS = ["org", "org", "provider:a", "provider:b"]
# amounts on both sides of the blocks of 64 and 4,096 MiB that the indexes work in
KINDS = [("A", "nv", 40_960), ("A", "nv", 49_140), ("B", "nv", 81_920), ("C", "amd", 65_536), ("B", "amd", 81_559)]
POOLS = [(ORG_POOL,), (PROVIDERS_POOL, ORG_POOL), (PROVIDERS_POOL,), (Pool("provider:a"),), (Pool("provider:b"), ORG_POOL), ()]
AMOUNTS = [1, 63, 64, 3_000, 4_096, 5_000, 8_192, 10_000, 20_480, 24_000, 40_960, 40_961, 49_140, 65_536, 81_559, 81_920, 81_921]


def one_node(kinds: Iterable[tuple[str, str, int]]) -> list[Gpu]:
    return [Gpu(at, model, vendor, Mib(mib)) for at, (model, vendor, mib) in enumerate(kinds)]


class Driver:
    """Drives a ledger, keeps beside it a plain record of what ought to be, and compares."""

    def __init__(self) -> None:
        self.ledger = self.new_ledger()
        self.nodes: dict[str, tuple[str, bool, dict[int, Gpu]]] = {}  # owner, drain, GPUs by index
        self.booked: dict[RunId, Placement] = {}
        self.kept: dict[str, dict[tuple[str, int], int]] = {}  # in quarantine, by the text of the run
        self.count = self.placed = 0

    def new_ledger(self) -> VramLedger:
        return VramLedger()

    def set_node(self, name: str, owner: str, gpus: list[Gpu], drain: bool) -> None:
        if name in self.nodes:
            self.ledger.update_node(name, owner=owner, gpus=gpus, drain=drain)
        else:
            self.ledger.add_node(name, owner, gpus, drain)
        self.nodes[name] = (owner, drain, {gpu.index: gpu for gpu in gpus})

    def drain(self, name: str, drain: bool) -> None:
        if name in self.nodes:
            self.ledger.update_node(name, drain=drain)
            owner, _, gpus = self.nodes[name]
            self.nodes[name] = (owner, drain, gpus)

    def remove(self, name: str) -> None:
        self.ledger.remove_node(name)
        self.nodes.pop(name, None)

    def reserve(self, ask: Ask, pools: Sequence[Pool]) -> None:
        self.count += 1
        run, before = RunId(f"run-{self.count}", 1), self.ledger.view()
        expected = self.compared(ask, best_fit(before, ask, pools), self.ledger.reserve(run, ask, pools))
        if isinstance(expected, NoRoom):
            assert self.ledger.placement(run) is None
            return
        assert ask.gpus * ask.workers == len({(slot.node, slot.gpu) for slot in expected})
        for slot in expected:
            node = before.nodes[slot.node]
            gpu = next(each for each in node.gpus if each.gpu.index == slot.gpu)
            assert gpu.free >= slot.mib >= ask.mib
            assert not node.drain
            assert any(pool.has(node.owner) for pool in pools)
            assert ask.model in (None, gpu.gpu.model)
            assert ask.vendor in (None, gpu.gpu.vendor)
            assert not ask.exclusive or (gpu.idle and slot.mib == gpu.gpu.total)
        self.booked[run] = expected
        self.placed += 1
        assert expected == self.ledger.reserve(run, ask, ())  # the same run again

    def compared(self, ask: Ask, expected: Placement | NoRoom, found: Placement | NoRoom) -> Placement | NoRoom:
        """What was found, if it is what it ought to be."""
        assert expected == found
        return found

    def release(self, run: RunId) -> None:
        self.ledger.release(run)
        self.ledger.release(run)
        self.booked.pop(run, None)

    def adopt(self, run: RunId, placement: Placement) -> None:
        free = {(node.name, gpu.gpu.index): gpu.free for node in self.ledger.view().nodes.values() for gpu in node.gpus}
        places = [(slot.node, slot.gpu) for slot in placement]
        fits = len(set(places)) == len(places) > 0 and all(
            slot.mib <= free.get(at, Mib(0)) for slot, at in zip(placement, places, strict=True)
        )
        if run in self.booked:
            fits = self.booked[run] == placement
        elif str(run) in self.kept:
            fits = False
        assert fits == self.ledger.adopt(run, placement)
        if fits:
            self.booked[run] = placement

    def quarantine(self, run: RunId, slots: Placement | None) -> None:
        self.ledger.quarantine(run, slots)
        self.ledger.quarantine(run, slots)
        mine = self.booked.get(run, ())
        slots = mine if slots is None else slots
        for slot in slots:
            self.kept.setdefault(str(run), {}).setdefault((slot.node, slot.gpu), slot.mib.n)
        gone = {(slot.node, slot.gpu) for slot in slots}
        rest = tuple(slot for slot in mine if (slot.node, slot.gpu) not in gone)
        self.booked.pop(run, None)
        if rest:
            self.booked[run] = rest

    def lift(self, run: str, node: str | None) -> None:
        self.ledger.lift(run, node)
        self.ledger.lift(run, node)
        left = {at: mib for at, mib in self.kept.pop(run, {}).items() if node not in (None, at[0])}
        if left:
            self.kept[run] = left

    def rebuild(self) -> None:
        """A successor that is told the nodes, the quarantine and the placements stands where the predecessor stood."""
        view, made = self.ledger.view(), self.new_ledger()
        for node in view.nodes.values():
            made.add_node(node.name, node.owner, [gpu.gpu for gpu in node.gpus], node.drain)
        for run, placement in self.booked.items():
            if not made.adopt(run, placement):
                return  # something shrank or left below it: that run would end
        for text, slots in self.ledger.quarantined().items():
            made.quarantine(RunId.parse(text), slots)
        if all(run not in self.kept for run in map(str, self.booked)):
            assert view == made.view()
            self.ledger = made

    def check(self) -> None:
        view = self.ledger.view()
        assert sorted(self.nodes) == sorted(view.nodes) == sorted(self.ledger.names())
        booked: dict[tuple[str, int], int] = {}
        kept: dict[tuple[str, int], int] = {}
        for placement in self.booked.values():
            for slot in placement:
                booked[slot.node, slot.gpu] = booked.get((slot.node, slot.gpu), 0) + slot.mib.n
        for slots in self.kept.values():
            for at, mib in slots.items():
                kept[at] = kept.get(at, 0) + mib
        for name, (owner, drain, gpus) in self.nodes.items():
            node = view.nodes[name]
            assert (owner, drain, list(gpus)) == (node.owner, node.drain, [each.gpu.index for each in node.gpus])
            for each in node.gpus:
                at = (name, each.gpu.index)
                assert gpus[each.gpu.index] == each.gpu
                assert (booked.get(at, 0), kept.get(at, 0)) == (each.booked.n, each.quarantined.n)
                assert each.gpu.total + each.over == each.free + each.booked + each.quarantined
                assert each.over.n == 0 or each.free.n == 0
        assert LedgerView(view.nodes).classes == view.classes
        assert self.booked == {run: self.ledger.placement(run) for run in self.ledger.runs()}
        assert self.kept == {run: {(slot.node, slot.gpu): slot.mib.n for slot in slots} for run, slots in self.ledger.quarantined().items()}


ASKS = st.builds(
    Ask,
    st.sampled_from(AMOUNTS).map(Mib),
    gpus=st.sampled_from([1, 1, 1, 2, 2, 3, 4]),
    workers=st.sampled_from([1, 1, 1, 2, 3]),
    model=st.sampled_from([None, None, "A", "B", "none"]),
    vendor=st.sampled_from([None, None, "nv", "amd"]),
    exclusive=st.booleans(),
)
GPUS = st.lists(st.sampled_from(KINDS), max_size=4).map(one_node)
AT = st.integers(0, 10**6)


class LedgerHistories(RuleBasedStateMachine):
    """Histories that Hypothesis finds."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()

    def a_run(self, at: int) -> RunId:
        runs = sorted(self.driver.booked)
        return runs[at % len(runs)]

    @rule(name=st.sampled_from(NAMES), owner=st.sampled_from(OWNERS), gpus=GPUS, drain=st.sampled_from([False, False, True]))
    def set_node(self, name: str, owner: str, gpus: list[Gpu], drain: bool) -> None:
        self.driver.set_node(name, owner, gpus, drain)

    @rule(name=st.sampled_from(NAMES), drain=st.booleans())
    def drain(self, name: str, drain: bool) -> None:
        self.driver.drain(name, drain)

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        self.driver.remove(name)

    @rule(ask=ASKS, pools=st.sampled_from(POOLS))
    def reserve(self, ask: Ask, pools: Sequence[Pool]) -> None:
        self.driver.reserve(ask, pools)

    @precondition(lambda self: self.driver.booked)
    @rule(at=AT)
    def release(self, at: int) -> None:
        self.driver.release(self.a_run(at))

    @precondition(lambda self: self.driver.booked)
    @rule(at=AT)
    def come_back(self, at: int) -> None:
        run = self.a_run(at)
        placement = self.driver.booked[run]
        self.driver.release(run)
        self.driver.adopt(run, placement)

    @rule(job=st.integers(1, 30), name=st.sampled_from(NAMES), gpu=st.integers(0, 4), mib=st.sampled_from(AMOUNTS))
    def adopt(self, job: int, name: str, gpu: int, mib: int) -> None:
        self.driver.adopt(RunId(f"job-{job}", 1), (Slot(name, gpu, Mib(mib)),))

    @precondition(lambda self: self.driver.booked)
    @rule(at=AT, which=st.sampled_from([None, 1]))
    def quarantine(self, at: int, which: int | None) -> None:
        run = self.a_run(at)
        self.driver.quarantine(run, None if which is None else self.driver.booked[run][:which])

    @rule(job=st.integers(1, 30), name=st.sampled_from(NAMES), gpu=st.integers(0, 4), mib=st.sampled_from(AMOUNTS))
    def quarantine_from_a_record(self, job: int, name: str, gpu: int, mib: int) -> None:
        self.driver.quarantine(RunId(f"job-{job}", 1), (Slot(name, gpu, Mib(mib)),))

    @precondition(lambda self: self.driver.kept)
    @rule(at=AT, node=st.sampled_from([None, None, *NAMES]))
    def lift(self, at: int, node: str | None) -> None:
        runs = sorted(self.driver.kept)
        self.driver.lift(runs[at % len(runs)], node)

    @rule()
    def rebuild(self) -> None:
        self.driver.rebuild()

    @invariant()
    def adds_up(self) -> None:
        self.driver.check()


LedgerHistories.TestCase.settings = settings(max_examples=200, stateful_step_count=60)
TestLedgerHistories = LedgerHistories.TestCase


def seeded_step(driver: Driver, draw: random.Random) -> None:
    """One random operation; nodes change rarely, so that the fleet fills."""
    runs, which = list(driver.booked), draw.random()
    name, some = draw.choice(NAMES), draw.randrange(max(1, len(runs)))
    slot = (Slot(name, draw.randrange(5), Mib(draw.choice(AMOUNTS))),)
    if which < 0.03:
        driver.set_node(name, draw.choice(OWNERS), one_node(draw.choices(KINDS, k=draw.randrange(9))), draw.random() < 0.1)
    elif which < 0.05:
        driver.set_node(name, draw.choice(OWNERS), one_node([draw.choice(KINDS)] * draw.randrange(9)), False)
    elif which < 0.06:
        driver.drain(name, draw.random() < 0.4)
    elif which < 0.07:
        driver.remove(name)
    elif which < 0.6:
        ask = Ask(
            Mib(draw.choice(AMOUNTS)),
            draw.choice([1, 1, 1, 2, 2, 3, 4]),
            draw.choice([1, 1, 1, 1, 2, 3]),
            draw.choice([None, None, None, "A", "B", "none"]),
            draw.choice([None, None, None, "nv", "amd"]),
            exclusive=draw.random() < 0.3,
        )
        driver.reserve(ask, draw.choice(POOLS))
    elif which < 0.74 and runs:
        driver.release(runs[some])
    elif which < 0.77 and runs:
        placement = driver.booked[runs[some]]
        driver.release(runs[some])
        driver.adopt(runs[some], placement)
    elif which < 0.79:
        driver.adopt(RunId(f"job-{draw.randrange(1, 30)}", 1), slot)
    elif which < 0.8 and runs:
        driver.quarantine(runs[some], draw.choice([None, driver.booked[runs[some]][:1]]))
    elif which < 0.805:
        driver.quarantine(RunId(f"job-{draw.randrange(1, 30)}", 1), slot)
    elif driver.kept:
        driver.lift(draw.choice(list(driver.kept)), draw.choice([None, None, name]))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seeded_histories_break_no_invariant(seed: int) -> None:
    """What Hypothesis is too slow to reach: heaps that were swept, indexes that outlived their nodes."""
    driver, draw = Driver(), random.Random(seed)
    for step in range(STEPS):
        seeded_step(driver, draw)
        if step % 20 == 0:
            driver.check()
        if step % 1000 == 0:
            driver.rebuild()
        if step % 100_000 == 99_999:
            print(f"seed {seed}: {step + 1:,} steps, {driver.placed:,} placed, {len(driver.booked)} live", flush=True)
    driver.check()
    assert driver.placed > STEPS // 20  # the histories are about something
