"""Which nodes there are, by pool and by shape: what the fleet could hold if all of it were free.

A *shape* is the model, vendor and MiB of each GPU of a node. Fleets have thousands of nodes and a handful of shapes:
what is asked of the whole fleet is answered from these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.fleet import GpuClass
from core.ledger_state import NodeState, Shape
from core.owners import PROVIDERS_POOL, Pool, is_provider
from ports.units import Mib
from ports.workloads import Ask


class Census:
    """Every node that is there, drained ones too."""

    __slots__ = ("_classes", "_members", "_shapes")

    def __init__(self) -> None:
        self._shapes: dict[str, dict[Shape, int]] = {}  # per owner, and of all providers: how many nodes of each shape
        self._members: dict[str, dict[str, NodeState]] = {}  # likewise: the nodes
        self._classes: frozenset[GpuClass] | None = None  # None: to be told anew

    def join(self, node: NodeState) -> None:
        self._classes = None
        for group in _groups(node.owner):
            self._members.setdefault(group, {})[node.name] = node
            shapes = self._shapes.setdefault(group, {})
            shapes[node.shape] = shapes.get(node.shape, 0) + 1

    def leave(self, node: NodeState) -> None:
        """With the owner and GPUs that it joined with."""
        self._classes = None
        for group in _groups(node.owner):
            del self._members[group][node.name]
            shapes = self._shapes[group]
            shapes[node.shape] -= 1
            if not shapes[node.shape]:
                del shapes[node.shape]

    def members(self, pool: Pool) -> Iterable[NodeState]:
        return self._members.get(pool.owners, {}).values()

    def classes(self) -> frozenset[GpuClass]:
        """Every kind of GPU that there is."""
        if self._classes is None:
            self._classes = frozenset(
                GpuClass(owner, model, vendor, Mib(total))
                for owner, shapes in self._shapes.items()
                if owner != PROVIDERS_POOL.owners
                for shape in shapes
                for model, vendor, total in shape
            )
        return self._classes

    def sizes(self) -> dict[int, int]:
        """MiB of VRAM that there are, by MiB per GPU."""
        found: dict[int, int] = {}
        for owner, shapes in self._shapes.items():
            if owner != PROVIDERS_POOL.owners:
                for shape, nodes in shapes.items():
                    for _, _, total in shape:
                        found[total] = found.get(total, 0) + nodes * total
        return found

    def capacity(self, ask: Ask, pool: Pool) -> int:
        """The most MiB per GPU that an ask of that shape could get in one pool if all were free; 0 if there is none."""
        fits: list[tuple[list[int], int]] = []
        for shape, nodes in self._shapes.get(pool.owners, {}).items():
            totals = [total for model, vendor, total in shape if ask.model in (None, model) and ask.vendor in (None, vendor)]
            if len(totals) >= ask.gpus:
                fits.append((totals, nodes))
        for mib in sorted({total for totals, _ in fits for total in totals}, reverse=True):
            if sum(nodes * (sum(total >= mib for total in totals) // ask.gpus) for totals, nodes in fits) >= ask.workers:
                return mib
        return 0


def _groups(owner: str) -> Iterator[str]:
    """The pools that a node of that owner is in."""
    yield owner
    if is_provider(owner):
        yield PROVIDERS_POOL.owners
