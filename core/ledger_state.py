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

    roomy: it may have a room in some index; while it has none, a booking can't change any.
    seen: the last view shows it as it is.
    """

    __slots__ = ("drain", "free", "gpus", "groups", "name", "owner", "present", "roomy", "seen")

    def __init__(self, name: str) -> None:
        self.name, self.owner, self.drain, self.present = name, "", True, False
        self.gpus: dict[int, GpuState] = {}
        self.free, self.roomy, self.seen = 0, True, True
        self.groups: list[Group] = []

    @property
    def shape(self) -> tuple[tuple[str, str, int], ...]:
        """Model, vendor and MiB of each GPU that it has."""
        return tuple(sorted((each.spec.model, each.spec.vendor, each.total) for each in self.gpus.values() if each.spec is not None))

    def refresh(self) -> None:
        """Bring its rooms up to date."""
        roomy = False
        for group in self.groups:
            roomy = group.refresh(self) or roomy
        self.roomy = roomy

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
            group = next((each for each in node.groups if each.members == members), None)
            if group is None:
                group = Group(members)
                node.groups.append(group)
            (group.exclusive if self.kind.exclusive else group.shared).append((self.rooms, self.gpus, Seat(node)))
            node.roomy = group.refresh(node) or node.roomy

    def choose(self, node: NodeState, mib: int) -> list[GpuState]:
        """The GPUs of that node that a worker gets."""
        exclusive = self.kind.exclusive
        offers = [(gpu.offer, gpu.index) for gpu in self.kind.of(node) if gpu.offer >= mib and (gpu.offer == gpu.total or not exclusive)]
        return [node.gpus[index] for _, index in sorted(offers)[: self.gpus]]


class Group:
    """GPUs of a node that several indexes look at: their offers are gathered once for all of them."""

    __slots__ = ("exclusive", "members", "shared")

    def __init__(self, members: list[GpuState]) -> None:
        self.members = members
        self.shared: list[tuple[Rooms[NodeState], int, Seat[NodeState]]] = []
        self.exclusive: list[tuple[Rooms[NodeState], int, Seat[NodeState]]] = []

    def refresh(self, node: NodeState) -> bool:
        """Tell the indexes what the node offers now; gives whether it has any room."""
        free, name, any_room = node.free, node.name, False
        if self.shared:
            offers = sorted([gpu.offer for gpu in self.members if gpu.offer > 0])
            for rooms, gpus, seat in self.shared:
                if gpus <= len(offers):
                    rooms.put(seat, name, ((offers[-gpus], 0, free),))
                    any_room = True
                elif seat.rooms:
                    rooms.put(seat, name, ())
        if self.exclusive:
            idle = sorted([gpu.total for gpu in self.members if gpu.offer == gpu.total])
            for rooms, gpus, seat in self.exclusive:
                if gpus <= len(idle):
                    rooms.put(seat, name, _idle_rooms(idle, gpus, free))
                    any_room = True
                elif seat.rooms:
                    rooms.put(seat, name, ())
        return any_room

    def leave(self, node: NodeState) -> None:
        for rooms, _, seat in (*self.shared, *self.exclusive):
            rooms.put(seat, node.name, ())


def _idle_rooms(idle: list[int], gpus: int, free: int) -> tuple[Room, ...]:
    """One room for each size of idle GPU that a worker may have to start from."""
    if idle[0] == idle[-1]:
        return ((idle[0], idle[0] * gpus, free - idle[0] * gpus),)
    starts = [at for at in range(len(idle) - gpus + 1) if at == 0 or idle[at] != idle[at - 1]]
    return tuple((idle[at], takes := sum(idle[at : at + gpus]), free - takes) for at in starts)
