"""What the ledger does when nodes shrink, leave, drain and come back; and that its work does not grow with the fleet."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from core.ledger import NoRoom, VramLedger
from core.owners import ORG_POOL, PROVIDERS_POOL
from ports.errors import Invalid, NotFound
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask, RunId, Slot

ORG = (ORG_POOL,)


def gpus(*totals: int, model: str = "A") -> list[Gpu]:
    return [Gpu(at, model, "nv", Mib(total)) for at, total in enumerate(totals)]


def run(number: int = 1) -> RunId:
    return RunId(f"job-{number}", 1)


def one_node(*totals: int) -> VramLedger:
    ledger = VramLedger()
    ledger.add_node("a", "org", gpus(*totals))
    return ledger


def amounts(ledger: VramLedger, node: str = "a") -> list[tuple[int, int, int]]:
    """(booked, quarantined, free) of each GPU."""
    return [(each.booked.n, each.quarantined.n, each.free.n) for each in ledger.view().nodes[node].gpus]


def test_the_same_run_gets_the_same_placement() -> None:
    """A scheduler that died between reserve and write asks again: a second booking would leak."""
    ledger = one_node(80)
    first = ledger.reserve(run(), Ask(Mib(10)), ORG)
    assert first == ledger.reserve(run(), Ask(Mib(20)), ORG)
    assert [(10, 0, 70)] == amounts(ledger)


def test_a_release_frees_once() -> None:
    """Both the end of a run and a later heal release it."""
    ledger = one_node(80)
    ledger.reserve(run(), Ask(Mib(10)), ORG)
    ledger.release(run())
    ledger.release(run())
    assert [(0, 0, 80)] == amounts(ledger)


def test_no_room_books_nothing() -> None:
    """A gang that fits in part must leave no trace of that part."""
    ledger = one_node(80, 80)
    assert isinstance(ledger.reserve(run(), Ask(Mib(10), 1, 3), ORG), NoRoom)
    assert [(0, 0, 80), (0, 0, 80)] == amounts(ledger)
    assert (Slot("a", 0, Mib(80)),) == ledger.reserve(run(), Ask(Mib(80)), ORG)


def test_what_is_booked_stays_when_its_gpu_shrinks() -> None:
    """The run is there; the ledger must neither forget it nor give out VRAM that does not exist."""
    ledger = one_node(80)
    ledger.reserve(run(), Ask(Mib(60)), ORG)
    ledger.update_node("a", gpus=gpus(40))
    assert [(60, 0, 0)] == amounts(ledger)
    assert Mib(20) == ledger.view().nodes["a"].gpus[0].over
    ledger.release(run())
    assert [(0, 0, 40)] == amounts(ledger)


def test_bookings_outlive_their_node() -> None:
    """A node that flaps comes back with its runs: their VRAM must not be given out a second time."""
    ledger = one_node(80)
    ledger.reserve(run(), Ask(Mib(60)), ORG)
    ledger.remove_node("a")
    assert () == ledger.names()
    assert (Slot("a", 0, Mib(60)),) == ledger.placement(run())
    ledger.add_node("a", "org", gpus(80))
    assert [(60, 0, 20)] == amounts(ledger)


def test_a_run_may_end_while_its_node_is_away() -> None:
    """Then the node comes back empty."""
    ledger = one_node(80)
    ledger.reserve(run(), Ask(Mib(60)), ORG)
    ledger.remove_node("a")
    ledger.release(run())
    ledger.add_node("a", "org", gpus(80))
    assert [(0, 0, 80)] == amounts(ledger)


def test_a_drained_node_keeps_its_runs_and_takes_no_more() -> None:
    """Draining ends nothing."""
    ledger = one_node(80)
    ledger.reserve(run(1), Ask(Mib(10)), ORG)
    ledger.update_node("a", drain=True)
    assert isinstance(ledger.reserve(run(2), Ask(Mib(10)), ORG), NoRoom)
    assert ledger.adopt(run(3), (Slot("a", 0, Mib(5)),))
    ledger.update_node("a", drain=False)
    assert (Slot("a", 0, Mib(10)),) == ledger.reserve(run(2), Ask(Mib(10)), ORG)
    assert [(25, 0, 55)] == amounts(ledger)


def test_quarantine_keeps_slots_until_it_is_lifted() -> None:
    """The processes of a run whose agent can't be asked may still be there."""
    ledger = one_node(80)
    ledger.reserve(run(1), Ask(Mib(60)), ORG)
    ledger.quarantine(run(1))
    assert None is ledger.placement(run(1))
    ledger.release(run(1))
    assert [(0, 60, 20)] == amounts(ledger)
    assert {"job-1/1": (Slot("a", 0, Mib(60)),)} == ledger.quarantined()
    assert isinstance(ledger.reserve(run(2), Ask(Mib(10), exclusive=True), ORG), NoRoom)
    ledger.lift("job-1/1")
    ledger.lift("job-1/1")
    assert [(0, 0, 80)] == amounts(ledger)


def test_one_node_of_a_gang_may_be_quarantined_alone() -> None:
    """The others have answered, and their VRAM is free."""
    ledger = one_node(80)
    ledger.add_node("b", "org", gpus(80))
    placed = ledger.reserve(run(), Ask(Mib(60), 1, 2), ORG)
    assert not isinstance(placed, NoRoom)
    ledger.quarantine(run(), placed[:1])
    assert placed[1:] == ledger.placement(run())
    ledger.release(run())
    assert [(0, 60, 20)] == amounts(ledger, "a")
    assert [(0, 0, 80)] == amounts(ledger, "b")


def test_a_quarantine_known_from_a_record_counts_before_its_node_joins() -> None:
    """After a takeover records are read in any order."""
    ledger = VramLedger()
    ledger.quarantine(run(), [Slot("a", 0, Mib(30))])
    ledger.add_node("a", "org", gpus(80))
    assert [(0, 30, 50)] == amounts(ledger)
    with pytest.raises(Invalid):
        ledger.reserve(run(), Ask(Mib(1)), ORG)


@pytest.mark.parametrize(
    "slots",
    [
        (),
        (Slot("a", 0, Mib(71)),),
        (Slot("a", 1, Mib(1)),),
        (Slot("z", 0, Mib(1)),),
        (Slot("a", 0, Mib(0)),),
        (Slot("a", 0, Mib(1)), Slot("a", 0, Mib(1))),
    ],
)
def test_adopt_books_exactly_those_slots_or_nothing(slots: tuple[Slot, ...]) -> None:
    """A placement of an older epoch is honoured only if it is still possible as it stands."""
    ledger = one_node(80)
    ledger.reserve(run(1), Ask(Mib(10)), ORG)
    assert not ledger.adopt(run(2), slots)
    assert None is ledger.placement(run(2))
    assert [(10, 0, 70)] == amounts(ledger)


def test_adopt_twice_is_adopt_once() -> None:
    """Folding a list of objects may see one of them again; another placement of the same run is a lie."""
    ledger = one_node(80, 80)
    slots = (Slot("a", 0, Mib(10)), Slot("a", 1, Mib(10)))
    assert ledger.adopt(run(), slots)
    assert ledger.adopt(run(), slots[::-1])
    assert not ledger.adopt(run(), slots[:1])
    assert [(10, 0, 70), (10, 0, 70)] == amounts(ledger)


def test_largest_is_what_an_empty_fleet_could_give() -> None:
    """An ask that no GPU could ever hold is refused at submit, with this."""
    ledger = one_node(80, 40)
    ledger.add_node("b", "provider:p", gpus(24, 24, 24, model="B"), drain=True)
    ledger.reserve(run(), Ask(Mib(70)), ORG)
    both = (PROVIDERS_POOL, ORG_POOL)
    assert Mib(80) == ledger.largest(Ask(Mib(1)), both)
    assert Mib(40) == ledger.largest(Ask(Mib(1), 2), both)
    assert Mib(24) == ledger.largest(Ask(Mib(1), 3), both)
    assert Mib(24) == ledger.largest(Ask(Mib(1), model="B"), both)
    assert Mib(40) == ledger.largest(Ask(Mib(1), 1, 2), both)
    assert Mib(0) == ledger.largest(Ask(Mib(1), 4), both)
    assert Mib(0) == ledger.largest(Ask(Mib(1), 3), ORG)


def test_a_view_is_a_snapshot() -> None:
    """A decision that is taken on it must not see what was booked after it."""
    ledger = one_node(80)
    before = ledger.view()
    ledger.reserve(run(), Ask(Mib(10)), ORG)
    assert Mib(80) == before.nodes["a"].gpus[0].free
    assert Mib(70) == ledger.view().nodes["a"].gpus[0].free


@pytest.mark.parametrize("bad", [RunId("", 1), RunId("job", 0), RunId("job", True), "job/1", None])
def test_an_id_that_is_none_is_refused(bad: Any) -> None:
    """A booking under an id that nobody can name would never be released."""
    with pytest.raises(Invalid):
        one_node(80).reserve(bad, Ask(Mib(1)), ORG)


@pytest.mark.parametrize(
    "bad",
    [
        lambda ledger: ledger.add_node("a", "org", gpus(80)),
        lambda ledger: ledger.add_node("", "org", gpus(80)),
        lambda ledger: ledger.add_node("b", "nobody", gpus(80)),
        lambda ledger: ledger.add_node("b", "org", gpus(0)),
        lambda ledger: ledger.add_node("b", "org", gpus(80) * 2),
        lambda ledger: ledger.update_node("b", drain=True),
        lambda ledger: ledger.update_node("a", owner="nobody"),
        lambda ledger: ledger.update_node("a", gpus=gpus(0)),
    ],
)
def test_a_refused_change_of_a_node_changes_nothing(bad: Callable[[VramLedger], None]) -> None:
    """What is checked late is half done."""
    ledger = one_node(80)
    before = ledger.view()
    with pytest.raises((Invalid, NotFound)):
        bad(ledger)
    assert before == ledger.view()
    assert (Slot("a", 0, Mib(1)),) == ledger.reserve(run(), Ask(Mib(1)), ORG)


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python run."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "ask",
    [Ask(Mib(7)), Ask(Mib(7), exclusive=True), Ask(Mib(7), 2), Ask(Mib(7), 2, exclusive=True), Ask(Mib(7), 2, 2, "B", "nv"), Ask(Mib(99))],
    ids=str,
)
def test_placing_looks_no_further_on_a_larger_fleet(ask: Ask) -> None:
    """No scan of the fleet: the work is bounded by sizes of GPUs, not by how many there are."""

    def work(nodes: int) -> int:
        ledger = VramLedger()
        for at in range(nodes):
            ledger.add_node(f"n{at:05d}", "org", gpus(80, 80, 80, 40, model="AB"[at % 2]))
        for number in range(nodes):
            ledger.reserve(run(number), Ask(Mib(1 + number * 7 % 60)), ORG)
        for number in range(0, nodes, 3):
            ledger.release(run(number))
        ledger.reserve(RunId("warm", 1), ask, ORG)
        ledger.release(RunId("warm", 1))

        def measured() -> None:
            for number in range(20):
                ledger.reserve(RunId(f"probe-{number}", 1), ask, ORG)
            for number in range(20):
                ledger.release(RunId(f"probe-{number}", 1))

        return lines_of(measured)

    assert work(1600) < 3 * work(100)
