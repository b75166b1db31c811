"""Defragmentation advice against trying everything, on fleets small enough for that."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from core.advice import Movable, NoPlan, Plan, advise
from core.ledger import NoRoom, VramLedger
from core.owners import ORG_POOL, PROVIDERS_POOL, Pool
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask, Placement, RunId, Slot

KINDS = [("A", 4), ("A", 6), ("B", 6)]
ASKS = st.builds(
    Ask,
    st.integers(1, 6).map(Mib),
    gpus=st.sampled_from([1, 1, 1, 2]),
    workers=st.sampled_from([1, 1, 1, 2]),
    model=st.sampled_from([None, None, "A", "B"]),
    exclusive=st.sampled_from([False, False, True]),
)
POOLS = st.sampled_from([(ORG_POOL,), (PROVIDERS_POOL, ORG_POOL)])
NODES = st.lists(
    st.tuples(st.sampled_from(["org", "org", "provider:p"]), st.lists(st.sampled_from(KINDS), min_size=1, max_size=2), st.booleans()),
    min_size=1,
    max_size=3,
)
RUNS = st.lists(st.tuples(ASKS, POOLS, st.sampled_from([True, True, False])), max_size=6)
At = tuple[str, int]  # node, GPU
Hardware = dict[At, tuple[str, str, int]]  # owner, model, MiB


def ways(hardware: Hardware, free: dict[At, int], ask: Ask, pool: Pool, taken: frozenset[At]) -> Iterator[Placement]:
    """Every place of one worker."""
    fits = [
        at
        for at, (owner, model, total) in hardware.items()
        if pool.has(owner)
        and ask.model in (None, model)
        and at not in taken
        and free[at] >= (total if ask.exclusive else 0)
        and free[at] >= ask.mib.n
    ]
    for chosen in combinations(fits, ask.gpus):
        if len({node for node, _ in chosen}) == 1:
            yield tuple(Slot(*at, Mib(hardware[at][2]) if ask.exclusive else ask.mib) for at in chosen)


def can_all(hardware: Hardware, free: dict[At, int], jobs: Sequence[tuple[Ask, Pool, int]], taken: frozenset[At]) -> bool:
    """Whether all can be placed; jobs: ask, pool, workers still to place. taken: GPUs of the first one's placed workers."""
    if not jobs:
        return True
    ask, pool, left = jobs[0]
    if not left:
        return can_all(hardware, free, jobs[1:], frozenset())
    for slots in ways(hardware, free, ask, pool, taken):
        after = dict(free)
        for slot in slots:
            after[slot.node, slot.gpu] -= slot.mib.n
        if can_all(hardware, after, [(ask, pool, left - 1), *jobs[1:]], taken | {(slot.node, slot.gpu) for slot in slots}):
            return True
    return False


def fewest(hardware: Hardware, free: dict[At, int], ask: Ask, pools: Sequence[Pool], movable: Sequence[Movable]) -> int | None:
    """How many moves it takes, by trying every set of runs and every way to place them."""
    for count in range(min(3, len(movable)) + 1):
        for moved in combinations(movable, count):
            room = dict(free)
            for slot in (slot for each in moved for slot in each.placement):
                room[slot.node, slot.gpu] += slot.mib.n
            for chosen in product(pools, *(each.pools for each in moved)):
                asks = [ask, *(each.ask for each in moved)]
                if can_all(hardware, room, [(each, pool, each.workers) for each, pool in zip(asks, chosen, strict=True)], frozenset()):
                    return count
    return None


def carried_out(ledger: VramLedger, plan: Plan) -> bool:
    """The runs stop, the ask starts, and they start again where the plan says."""
    for move in plan.moves:
        assert move.was == ledger.placement(move.run)
        ledger.release(move.run)
    return ledger.adopt(RunId("waiting", 1), plan.placement) and all(ledger.adopt(move.run, move.to) for move in plan.moves)


@settings(max_examples=300, deadline=None)
@given(NODES, RUNS, ASKS, POOLS)
def test_a_plan_is_possible_and_none_has_fewer_moves(
    nodes: list[tuple[str, list[tuple[str, int]], bool]], runs: list[tuple[Ask, tuple[Pool, ...], bool]], ask: Ask, pools: tuple[Pool, ...]
) -> None:
    """An operator stops people's work on it: a plan that fails midway, or that moves one too many, costs him their trust."""
    ledger, hardware = VramLedger(), Hardware()
    for at, (owner, kinds, _) in enumerate(nodes):
        ledger.add_node(f"n{at}", owner, [Gpu(index, model, "nv", Mib(mib)) for index, (model, mib) in enumerate(kinds)])
    movable = []
    for at, (wanted, where, may_move) in enumerate(runs):
        run = RunId(f"job-{at}", 1)
        placed = ledger.reserve(run, wanted, where)
        if not isinstance(placed, NoRoom) and may_move:
            movable.append(Movable(run, placed, wanted, where))
    for at, (_, _, drain) in enumerate(nodes):
        ledger.update_node(f"n{at}", drain=drain and at > 0)
    view = ledger.view()
    usable = {node.name: node for node in view.nodes.values() if not node.drain}
    free = {(node.name, each.gpu.index): each.free.n for node in view.nodes.values() for each in node.gpus}
    for name, node in usable.items():
        for each in node.gpus:
            hardware[name, each.gpu.index] = (node.owner, each.gpu.model, each.gpu.total.n)
    expected = fewest(hardware, free, ask, pools, movable)
    found = advise(view, ask, pools, movable)
    if expected is None:
        assert NoPlan(3, certain=True) == found
    else:
        assert isinstance(found, Plan)
        assert expected == len(found.moves)
        assert carried_out(ledger, found)
