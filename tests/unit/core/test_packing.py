"""The rules of packing, one by one, on fleets that fit into a line."""

import pytest

from core.fleet import GpuView, LedgerView, NodeView
from core.owners import ORG_POOL, PROVIDERS_POOL
from core.packing import NoRoom, best_fit
from ports.errors import Invalid
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask

# a GPU is (total, booked), or (total, booked, quarantined)
Spec = tuple[int, int] | tuple[int, int, int]


def node(name: str, *gpus: Spec, owner: str = "org", drain: bool = False, model: str = "A", vendor: str = "nv") -> NodeView:
    views = []
    for at, (total, booked, *rest) in enumerate(gpus):
        kept = rest[0] if rest else 0
        views.append(GpuView(Gpu(at, model, vendor, Mib(total)), Mib(booked), Mib(kept), Mib(total - booked - kept)))
    return NodeView(name, owner, drain, tuple(views))


def where(ask: Ask, *nodes: NodeView) -> list[tuple[str, int, int]]:
    placed = best_fit(LedgerView({each.name: each for each in nodes}), ask, (PROVIDERS_POOL, ORG_POOL))
    return [] if isinstance(placed, NoRoom) else [(slot.node, slot.gpu, slot.mib.n) for slot in placed]


def test_one_gpu_is_the_tightest() -> None:
    """Best fit keeps large holes for large asks."""
    assert [("b", 1, 10)] == where(Ask(Mib(10)), node("a", (80, 60)), node("b", (80, 0), (80, 69)), node("c", (80, 71)))


def test_ties_go_by_node_name_and_gpu_index() -> None:
    """A choice that depends on the order of arrival could not be checked or repeated."""
    assert [("a", 0, 10)] == where(Ask(Mib(10)), node("b", (80, 0)), node("a", (80, 0), (80, 0)))


def test_an_exclusive_ask_takes_the_smallest_idle_gpu_whole() -> None:
    """A GPU with a MiB booked or quarantined is not idle."""
    nodes = node("a", (40, 1)), node("b", (40, 0, 1)), node("c", (80, 0)), node("d", (48, 0))
    assert [("d", 0, 48)] == where(Ask(Mib(10), exclusive=True), *nodes)


def test_several_gpus_go_to_the_node_left_with_least() -> None:
    """Counted over all GPUs of the node, so that nodes that are free as a whole stay so."""
    nodes = node("a", (80, 0), (80, 0), (80, 0)), node("b", (80, 0), (80, 79), (80, 10))
    assert [("b", 2, 20), ("b", 0, 20)] == where(Ask(Mib(20), 2), *nodes)


def test_several_gpus_are_of_one_node() -> None:
    """They talk to each other at the speed of one machine."""
    assert [] == where(Ask(Mib(20), 2), node("a", (80, 0)), node("b", (80, 0)))


def test_several_whole_gpus_take_the_least_vram_first() -> None:
    """A node left with nothing is no gain if it took twice the VRAM."""
    nodes = node("a", (80, 0), (80, 0)), node("b", (40, 0), (40, 0), (40, 0))
    assert [("b", 0, 40), ("b", 1, 40)] == where(Ask(Mib(30), 2, exclusive=True), *nodes)


def test_workers_of_a_gang_share_nodes_but_no_gpu() -> None:
    """Collective libraries refuse two ranks on one GPU."""
    assert [("a", 0, 10), ("a", 1, 10), ("b", 0, 10)] == where(Ask(Mib(10), 1, 3), node("a", (80, 40), (80, 40)), node("b", (80, 0)))


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    """Half of a gang would hold GPUs and wait for ever."""
    assert [] == where(Ask(Mib(10), 2, 2), node("a", (80, 0), (80, 0), (80, 0)))


def test_one_pool_holds_the_whole_run() -> None:
    """A provider's hardware comes first, but only if it can take all of it."""
    nodes = node("a", (80, 0), owner="provider:p"), node("b", (80, 0), (80, 0))
    assert [("a", 0, 10)] == where(Ask(Mib(10)), *nodes)
    assert [("b", 0, 10), ("b", 1, 10)] == where(Ask(Mib(10), 1, 2), *nodes)


def test_model_and_vendor_are_what_the_ask_names() -> None:
    """A kernel that was compiled for one does not run on the other."""
    nodes = node("a", (80, 70), model="A"), node("b", (80, 0), model="B"), node("c", (80, 0), model="B", vendor="amd")
    assert [("b", 0, 5)] == where(Ask(Mib(5), model="B"), *nodes)
    assert [("c", 0, 5)] == where(Ask(Mib(5), vendor="amd"), *nodes)
    assert [] == where(Ask(Mib(5), model="A", vendor="amd"), *nodes)


def test_a_drained_node_gets_nothing() -> None:
    """Its operator waits for it to become empty."""
    assert [("b", 0, 10)] == where(Ask(Mib(10)), node("a", (80, 70), drain=True), node("b", (80, 0)))


def test_no_room_says_by_how_much_and_where_it_looked() -> None:
    """A user decides by it whether to wait or to ask for less."""
    view = LedgerView({"a": node("a", (80, 50), (80, 60))})
    found = best_fit(view, Ask(Mib(40)), (PROVIDERS_POOL, ORG_POOL))
    assert isinstance(found, NoRoom)
    assert (Mib(10), ("providers", "org")) == (found.short_by, found.tried)
    assert "30 MiB" in found.reason
    both = best_fit(view, Ask(Mib(40), 2), (ORG_POOL,))
    assert isinstance(both, NoRoom)
    assert Mib(20) == both.short_by


@pytest.mark.parametrize("ask", [Ask(Mib(0)), Ask(Mib(-1)), Ask(Mib(1), 0), Ask(Mib(1), 1, 0), Ask(Mib(1), True), Ask(5)])  # type: ignore[arg-type]
def test_an_ask_out_of_range_is_invalid(ask: Ask) -> None:
    """An ask for nothing would get a placement of nothing, and a run that holds no GPU."""
    with pytest.raises(Invalid):
        best_fit(LedgerView({}), ask, (ORG_POOL,))
