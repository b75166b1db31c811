"""A consistent snapshot of the fleet: whose GPUs there are, and how much of each is free, booked or quarantined.

Decisions that need no speed read it (the naive packing, pricing, what people are shown); the ledger makes it.
For every GPU `free = max(0, total - booked - quarantined)`. The clamp matters only when a GPU shrank below what is
booked on it, or when quarantine was declared on top: the bookings stay, and `over` says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from attrs import field, frozen

from ports.errors import NotFound
from ports.nodes import Gpu
from ports.units import Mib


@frozen
class GpuView:
    """One GPU. booked: MiB held by runs. quarantined: MiB that lost runs may still use. free: MiB that can be booked."""

    gpu: Gpu
    booked: Mib
    quarantined: Mib
    free: Mib

    @property
    def idle(self) -> bool:
        """Nothing is booked or quarantined on it."""
        return self.booked.n == 0 and self.quarantined.n == 0

    @property
    def over(self) -> Mib:
        """MiB in use beyond what the GPU has."""
        return Mib(max(0, self.booked.n + self.quarantined.n - self.gpu.total.n))


@frozen
class NodeView:
    """One node. drain: it gets no new bookings. gpus: by index."""

    name: str
    owner: str
    drain: bool
    gpus: tuple[GpuView, ...]

    @property
    def free(self) -> Mib:
        return Mib(sum(each.free.n for each in self.gpus))


@frozen
class GpuClass:
    """What GPUs of one kind have in common. total: MiB of each."""

    owner: str
    model: str
    vendor: str
    total: Mib


class Hardware(Protocol):
    """Who can tell whose a node is, and what its GPUs are. Both raise NotFound."""

    def owner(self, node: str) -> str: ...

    def gpu(self, node: str, index: int) -> Gpu: ...


@frozen
class LedgerView:
    """nodes: by name, drained ones too. classes: every kind of GPU that there is."""

    nodes: Mapping[str, NodeView]
    classes: frozenset[GpuClass] = field()

    @classes.default
    def _classes(self) -> frozenset[GpuClass]:
        return frozenset(
            GpuClass(node.owner, each.gpu.model, each.gpu.vendor, each.gpu.total) for node in self.nodes.values() for each in node.gpus
        )

    def owner(self, node: str) -> str:
        return self._node(node).owner

    def gpu(self, node: str, index: int) -> Gpu:
        for each in self._node(node).gpus:
            if each.gpu.index == index:
                return each.gpu
        raise unknown_gpu(node, index)

    def _node(self, name: str) -> NodeView:
        found = self.nodes.get(name)
        if found is None:
            raise unknown_node(name)
        return found


def unknown_node(name: str) -> NotFound:
    return NotFound(f"There is no node {name!r:.80}.", "node", "GET /v1/resources lists the nodes.")


def unknown_gpu(node: str, index: int) -> NotFound:
    return NotFound(f"Node {node!r:.80} has no GPU {index}.", "gpu", "GET /v1/resources lists its GPUs.")
