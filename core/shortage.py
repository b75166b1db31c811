"""Why an ask finds no room now, in words that name the node that comes closest. For people; nothing is decided by it.

The ledger says only by how much it fell short, since it never looks at the whole fleet; this does, so it is for those who
ask about one job, not for a round of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.inventory import Fleet, FleetGpu, FleetNode
from core.owners import Pool
from core.packing import needs
from ports.workloads import Ask

NO_NODE = "No node has joined yet."


def shortage(fleet: Fleet, ask: Ask, pools: Sequence[Pool]) -> str:
    """ "" if a worker of that ask would find room now (a whole gang may still not)."""
    known = [node for node in fleet.nodes if node.gpus]
    if not known:
        return NO_NODE
    ours = [node for node in known if any(pool.has(node.record.status.owner) for pool in pools)]
    ours = [node for node in ours if _could(node, ask)] or ours
    usable = [node for node in ours if node.usable]
    if ours and not usable:
        return f"{needs(ask)}; {_silent(ours)}"
    counts = {node.record.name: sum(gpu.free >= ask.mib for gpu in _of_kind(node, ask)) for node in usable}
    best = max(counts, key=lambda name: (counts[name], name), default="")
    if best and counts[best] >= ask.gpus:
        return ""
    return f"{needs(ask)}; {_best(best, counts[best]) if best and counts[best] else _most(usable, ask)}"


def _could(node: FleetNode, ask: Ask) -> bool:
    """Whether it would hold a worker if nothing else ran on it."""
    kinds = (gpu for gpu in node.gpus if ask.model in (None, gpu.gpu.model) and ask.vendor in (None, gpu.gpu.vendor))
    return sum(gpu.gpu.total >= ask.mib for gpu in kinds) >= ask.gpus


def _silent(nodes: Sequence[FleetNode]) -> str:
    states = sorted({"drains" if node.record.spec.drain else f"is {node.record.status.state.value}" for node in nodes})
    which = f"the one node for it, {nodes[0].record.name}," if len(nodes) == 1 else f"each of the {len(nodes)} nodes for it"
    return f"{which} takes no new work now: it {' or '.join(states)}."


def _best(name: str, has: int) -> str:
    return f"the best node, {name}, has {has}."


def _most(nodes: Iterable[FleetNode], ask: Ask) -> str:
    """Where no GPU has that much: the greatest amount that one has."""
    free = {(gpu.free, node.record.name) for node in nodes for gpu in _of_kind(node, ask) if gpu.free.n}
    if not free:
        return "none is idle." if ask.exclusive else "none has anything free."
    most, name = max(free)
    return f"the most that one has free is {most}, on {name}."


def _of_kind(node: FleetNode, ask: Ask) -> Iterable[FleetGpu]:
    for each in node.gpus:
        named = ask.model in (None, each.gpu.model) and ask.vendor in (None, each.gpu.vendor)
        if named and (not ask.exclusive or each.booked.n == each.quarantined.n == 0):
            yield each
