"""What the ledger keeps of a GPU and of a node, and the indexes that answer for one kind of GPU.

An index exists from the first ask on that needs it: per pool, model, vendor, exclusive or not, and number of GPUs per
worker. Making it reads its pool's nodes once; from then on every change keeps it. It is not made for an ask that no node could
ever serve, so what users ask for can't make more of them than the fleet has kinds.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from core.buckets import Buckets
from core.fleet import GpuView, NodeView
from core.owners import Pool
from core.rooms import Room, Rooms, Seat
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask

_serial = count()


class GpuState:
    """One GPU. spec: None if the node has it no more and something is still booked on it. All amounts in MiB.

    offer: what an ask may book now; 0 if nothing, -1 if it is closed (drained, gone, or taken by the gang at hand).
    """

    __slots__ = ("booked", "buckets", "entry", "free", "idles", "index", "node", "offer", "quarantined", "spec", "total")

    def __init__(self, node: NodeState, index: int, spec: Gpu | None, booked: int = 0, quarantined: int = 0) -> None:
        self.node, self.index, self.spec = node, index, spec
        self.total = 0 if spec is None else spec.total.n
        self.booked, self.quarantined = booked, quarantined
        self.free = max(0, self.total - booked - quarantined)
        self.offer = -1
        self.entry = (node.name, index, next(_serial), self)
        self.buckets: list[Buckets[GpuState]] = []
        self.idles: list[Buckets[GpuState]] = []

    @property
    def in_use(self) -> int:
        return self.booked + self.quarantined

    def open(self) -> None:
        """Offer what is free."""
        self.offer = free = self.free
        if free:
            entry = self.entry
            for buckets in self.buckets:
                buckets.put(entry, free)
            if free == self.total:
                for buckets in self.idles:
                    buckets.put(entry, free)

    def view(self) -> GpuView:
        assert self.spec is not None  # noqa: S101 - only GPUs that the node has are shown
        return GpuView(self.spec, Mib(self.booked), Mib(self.quarantined), Mib(self.free))


class NodeState:
    """One node. present: False if it has left and something is still booked on it. free: sum over its GPUs, in MiB.

    shares, wholes: who looks for several of its GPUs.
    seen: the last view shows it as it is.
    """

    __slots__ = ("drain", "free", "gpus", "name", "owner", "present", "seen", "shares", "wholes")

    def __init__(self, name: str) -> None:
        self.name, self.owner, self.drain, self.present = name, "", True, False
        self.gpus: dict[int, GpuState] = {}
        self.free, self.seen = 0, True
        self.shares, self.wholes = Watch(self, False), Watch(self, True)

    @property
    def shape(self) -> tuple[tuple[str, str, int], ...]:
        """Model, vendor and MiB of each GPU that it has."""
        return tuple(sorted((each.spec.model, each.spec.vendor, each.total) for each in self.gpus.values() if each.spec is not None))

    def view(self) -> NodeView:
        gpus = tuple(self.gpus[index].view() for index in sorted(self.gpus) if self.gpus[index].spec is not None)
        return NodeView(self.name, self.owner, self.drain, gpus)


class Kind:
    """Which GPUs an index is about."""

    __slots__ = ("exclusive", "model", "pool", "vendor")

    def __init__(self, pool: Pool, ask: Ask) -> None:
        self.pool, self.model, self.vendor, self.exclusive = pool, ask.model, ask.vendor, ask.exclusive

    def of(self, node: NodeState) -> list[GpuState]:
        return [
            gpu
            for gpu in node.gpus.values()
            if (spec := gpu.spec) is not None and self.model in (None, spec.model) and self.vendor in (None, spec.vendor)
        ]


class GpuIndex:
    """Finds one GPU: the tightest of its kind."""

    __slots__ = ("buckets", "kind")

    def __init__(self, kind: Kind, nodes: Iterable[NodeState]) -> None:
        self.kind = kind
        self.buckets: Buckets[GpuState] = Buckets()
        for node in nodes:
            self.join(node)

    def join(self, node: NodeState) -> None:
        for gpu in self.kind.of(node):
            (gpu.idles if self.kind.exclusive else gpu.buckets).append(self.buckets)
            if gpu.offer > 0 and (gpu.offer == gpu.total or not self.kind.exclusive):
                self.buckets.put(gpu.entry, gpu.offer)


class RoomIndex:
    """Finds `gpus` GPUs of one node: of the node left with least."""

    __slots__ = ("gpus", "kind", "rooms")

    def __init__(self, kind: Kind, gpus: int, nodes: Iterable[NodeState]) -> None:
        self.kind, self.gpus = kind, gpus
        self.rooms: Rooms[NodeState] = Rooms()
        for node in nodes:
            self.join(node)

    def join(self, node: NodeState) -> None:
        members = self.kind.of(node)
        if len(members) >= self.gpus:
            watch = node.wholes if self.kind.exclusive else node.shares
            watch.add(members, (self.rooms, self.gpus, Seat(node)))

    def choose(self, node: NodeState, mib: int) -> list[GpuState]:
        """The GPUs of that node that a worker gets."""
        exclusive = self.kind.exclusive
        offers = [(gpu.offer, gpu.index) for gpu in self.kind.of(node) if gpu.offer >= mib and (gpu.offer == gpu.total or not exclusive)]
        return [node.gpus[index] for _, index in sorted(offers)[: self.gpus]]


Watcher = tuple[Rooms["NodeState"], int, Seat["NodeState"]]  # an index, its GPUs per worker, and the node's seat in it


class Watch:
    """Who looks at a node's GPUs for several of them: for shares, or for whole idle GPUs.

    groups: those who look at the same GPUs, whose offers are gathered once for all. roomy: the node may have a room in
    some index; while it has none, a booking can't change any.
    """

    __slots__ = ("groups", "node", "roomy", "whole")

    def __init__(self, node: NodeState, whole: bool) -> None:
        self.node, self.whole, self.roomy = node, whole, False
        self.groups: list[tuple[list[GpuState], list[Watcher]]] = []

    def add(self, members: list[GpuState], watcher: Watcher) -> None:
        watchers = next((each for gpus, each in self.groups if gpus == members), None)
        if watchers is None:
            self.groups.append((members, [watcher]))
        else:
            watchers.append(watcher)
        self.refresh()

    def refresh(self) -> None:
        """Tell every index what the node offers now."""
        name, free, roomy = self.node.name, self.node.free, False
        for members, watchers in self.groups:
            if self.whole:
                offers = [gpu.total for gpu in members if gpu.offer == gpu.total]
            else:
                offers = [gpu.offer for gpu in members if gpu.offer > 0]
            offers.sort()
            for rooms, gpus, seat in watchers:
                if gpus <= len(offers):
                    rooms.put(seat, name, _whole_rooms(offers, gpus, free) if self.whole else ((offers[-gpus], 0, free),))
                    roomy = True
                elif seat.rooms:
                    rooms.put(seat, name, ())
        self.roomy = roomy

    def leave(self) -> None:
        """The node goes out of every index."""
        for _, watchers in self.groups:
            for rooms, _, seat in watchers:
                rooms.put(seat, self.node.name, ())
        self.groups.clear()
        self.roomy = False


def _whole_rooms(idle: list[int], gpus: int, free: int) -> tuple[Room, ...]:
    """One room for each size of idle GPU that a worker may have to start from."""
    if idle[0] == idle[-1]:
        return ((idle[0], idle[0] * gpus, free - idle[0] * gpus),)
    starts = [at for at in range(len(idle) - gpus + 1) if at == 0 or idle[at] != idle[at - 1]]
    return tuple((idle[at], takes := sum(idle[at : at + gpus]), free - takes) for at in starts)
