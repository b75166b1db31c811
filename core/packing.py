"""Where an ask goes: the readable specification, which the ledger answers faster and never differently.

A GPU is *eligible* for an ask if its model and vendor are what the ask names, its node takes new bookings, and it
has the MiB free; for an exclusive ask it must be idle and is taken whole. Quarantined MiB are neither free nor idle.

- One GPU per worker: the tightest, so the eligible GPU with least free (for an exclusive ask: the smallest). Ties: node
  name, then GPU index.
- Several GPUs per worker, all of one node: in each node the k eligible GPUs with least free (ties: index). Among
  nodes, the one where that takes least VRAM (only exclusive asks differ in it); then the one *left with least*: the
  sum of free MiB over all of its GPUs, whatever their model, afterwards; then by name.
- A gang is placed worker by worker, each as above with the former ones booked. Workers may share a node, never a GPU.
  As every worker takes the same number of GPUs, this finds room whenever there is some.
- Pools are tried in order, and one pool holds the whole run or none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve, frozen

from core.fleet import GpuView, LedgerView, NodeView
from core.owners import Pool
from ports.errors import Invalid
from ports.units import Mib
from ports.workloads import Ask, Placement, Slot


@frozen
class NoRoom:
    """Not now. short_by: MiB per GPU by which the pool that came closest fell short. tried: the pools. reason: for people."""

    short_by: Mib
    tried: tuple[str, ...]
    reason: str


@frozen
class Closest:
    """No worker fits: the greatest MiB per GPU that one of its shape could be given now, 0 if none."""

    mib: int


def best_fit(view: LedgerView, ask: Ask, pools: Sequence[Pool]) -> Placement | NoRoom:
    """The placement of that ask on that snapshot, or why there is none. Raises Invalid for an ask out of range."""
    check_ask(ask)
    closest = 0
    for pool in pools:
        found = _gang({name: node for name, node in view.nodes.items() if pool.has(node.owner) and not node.drain}, ask)
        if not isinstance(found, Closest):
            return found
        closest = max(closest, found.mib)
    return no_room(ask, pools, closest)


def check_ask(ask: Ask) -> None:
    """Raises Invalid unless the amounts are whole and positive."""
    if type(ask.mib) is not Mib:
        raise Invalid(f"vram must be an amount in MiB, not {ask.mib!r:.60}.", "vram", "Give a Mib.", ask.mib)
    if type(ask.mib.n) is type(ask.gpus) is type(ask.workers) is int and ask.mib.n >= 1 and ask.gpus >= 1 and ask.workers >= 1:
        return
    for name, value in (("vram", ask.mib.n), ("gpus", ask.gpus), ("workers", ask.workers)):
        if type(value) is not int or value < 1:
            raise Invalid(f"{name} must be a whole number from 1, not {value!r:.60}.", name, "Ask for at least 1.", value)


def no_room(ask: Ask, pools: Sequence[Pool], closest: int) -> NoRoom:
    """The answer for an ask that no pool can hold now. closest: MiB per GPU that the best pool could give."""
    if closest:
        have = f"the most that {f'{ask.gpus} of one node have' if ask.gpus > 1 else 'one has'} free is {Mib(closest)}"
    elif ask.gpus > 1:
        have = f"no node has {ask.gpus} with anything free" if not ask.exclusive else f"no node has {ask.gpus} idle ones"
    else:
        have = "none is idle" if ask.exclusive else "none has anything free"
    tried = tuple(pool.owners for pool in pools)
    return NoRoom(Mib(max(1, ask.mib.n - closest)), tried, f"{needs(ask)}; {have}.")


def needs(ask: Ask) -> str:
    """What an ask wants, as the beginning of a sentence that goes on with what there is."""
    what = " ".join(part for part in ("idle" if ask.exclusive else "", ask.vendor, ask.model, "GPUs" if ask.gpus > 1 else "GPU") if part)
    shape = f"{ask.gpus} {what} of one node with {ask.mib} free each" if ask.gpus > 1 else f"1 {what} with {ask.mib} free"
    return f"Needs {f'{ask.workers} times ' if ask.workers > 1 else ''}{shape}"


def _gang(nodes: dict[str, NodeView], ask: Ask) -> Placement | Closest:
    placed: tuple[Slot, ...] = ()
    for _ in range(ask.workers):
        worker = _worker(nodes, ask, {(slot.node, slot.gpu) for slot in placed})
        if isinstance(worker, Closest):
            return worker
        placed += worker
        nodes[worker[0].node] = _booked(nodes[worker[0].node], worker)
    return placed


def _worker(nodes: dict[str, NodeView], ask: Ask, taken: set[tuple[str, int]]) -> Placement | Closest:
    """taken: GPUs that the gang has already."""
    best: tuple[tuple[int | str, ...], Placement] | None = None
    closest = 0
    for node in nodes.values():
        usable = [each for each in _usable(node, ask) if (node.name, each.gpu.index) not in taken]
        if len(usable) >= ask.gpus:
            closest = max(closest, usable[-ask.gpus].free.n)
        chosen = [each for each in usable if each.free >= ask.mib][: ask.gpus]
        if len(chosen) == ask.gpus:
            slots = tuple(Slot(node.name, each.gpu.index, each.free if ask.exclusive else ask.mib) for each in chosen)
            if ask.gpus == 1:
                rank: tuple[int | str, ...] = (chosen[0].free.n, node.name, chosen[0].gpu.index)
            else:
                takes = sum(slot.mib.n for slot in slots)
                rank = (takes, node.free.n - takes, node.name)
            if best is None or rank < best[0]:
                best = (rank, slots)
    return Closest(closest) if best is None else best[1]


def _usable(node: NodeView, ask: Ask) -> list[GpuView]:
    """GPUs of the right kind with anything to give, tightest first."""
    return sorted(_of_kind(node, ask), key=lambda each: (each.free.n, each.gpu.index))


def _of_kind(node: NodeView, ask: Ask) -> Iterator[GpuView]:
    for each in node.gpus:
        named = (ask.model is None or each.gpu.model == ask.model) and (ask.vendor is None or each.gpu.vendor == ask.vendor)
        if named and each.free.n > 0 and (each.idle or not ask.exclusive):
            yield each


def _booked(node: NodeView, slots: Placement) -> NodeView:
    """The node after those slots."""
    takes = {slot.gpu: slot.mib for slot in slots}
    gpus = (
        evolve(each, booked=each.booked + takes[each.gpu.index], free=each.free - takes[each.gpu.index])
        if each.gpu.index in takes
        else each
        for each in node.gpus
    )
    return evolve(node, gpus=tuple(gpus))
