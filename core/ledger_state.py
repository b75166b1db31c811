"""What the ledger keeps of a GPU and of a node, and who has to be told when a node's rooms change."""

from __future__ import annotations

from itertools import count

from core.buckets import Entry, Finder
from core.fleet import GpuView, NodeView
from core.rooms import Room, Rooms, Seat
from ports.nodes import Gpu
from ports.units import Mib

_serial = count()

Shape = tuple[tuple[str, str, int], ...]  # model, vendor and MiB of each GPU of a node


class Finders:
    """Who has to know what GPUs of one owner, model and vendor offer: for a part of one, and for whole idle ones."""

    __slots__ = ("buckets", "idles")

    def __init__(self) -> None:
        self.buckets: list[Finder[GpuState]] = []
        self.idles: list[Finder[GpuState]] = []


_NOBODY = Finders()


class GpuState:
    """One GPU. spec: None if the node has it no more and something is still booked on it. All amounts in MiB.

    offer: what an ask may book now; 0 if nothing, -1 if it is closed (drained, gone, or taken by the gang at hand).
    """

    __slots__ = ("booked", "entry", "finders", "free", "index", "node", "offer", "quarantined", "spec", "total")

    def __init__(self, node: NodeState, index: int, spec: Gpu | None, booked: int = 0, quarantined: int = 0) -> None:
        self.node, self.index, self.spec = node, index, spec
        self.total = 0 if spec is None else spec.total.n
        self.booked, self.quarantined = booked, quarantined
        self.free = max(0, self.total - booked - quarantined)
        self.offer = -1
        self.entry: Entry = (node.name, index, next(_serial), self)
        self.finders = _NOBODY

    @property
    def in_use(self) -> int:
        return self.booked + self.quarantined

    def open(self) -> None:
        """Offer what is free."""
        was, free = self.offer, self.free
        self.offer = free
        for finder in self.finders.buckets:
            finder.put(self, was)
        if free == self.total:
            for finder in self.finders.idles:
                finder.put(self, was)

    def view(self) -> GpuView:
        assert self.spec is not None  # noqa: S101 - only GPUs that the node has are shown
        return GpuView(self.spec, Mib(self.booked), Mib(self.quarantined), Mib(self.free))


class NodeState:
    """One node. present: False if it has left and something is still booked on it. free: sum over its GPUs, in MiB.

    shares, wholes: who looks for several of its GPUs; roomy_shares, roomy_wholes: whether it may have a room for any of them.
    While it has none, a booking can't change any.
    seen: the last view shows it as it is.
    """

    __slots__ = ("drain", "free", "gpus", "name", "owner", "present", "roomy_shares", "roomy_wholes", "seen", "shares", "wholes")

    def __init__(self, name: str) -> None:
        self.name, self.owner, self.drain, self.present = name, "", True, False
        self.gpus: dict[int, GpuState] = {}
        self.free, self.seen = 0, True
        self.roomy_shares = self.roomy_wholes = False
        self.shares, self.wholes = Watch(self, False), Watch(self, True)

    @property
    def shape(self) -> Shape:
        """Of the GPUs that it has."""
        return tuple(sorted((each.spec.model, each.spec.vendor, each.total) for each in self.gpus.values() if each.spec is not None))

    def view(self) -> NodeView:
        gpus = tuple(self.gpus[index].view() for index in sorted(self.gpus) if self.gpus[index].spec is not None)
        return NodeView(self.name, self.owner, self.drain, gpus)


Watcher = tuple[Rooms["NodeState"], int, Seat["NodeState"]]  # an index, its GPUs per worker, and the node's seat in it


class Watch:
    """Who looks at a node's GPUs for several of them: for shares, or for whole idle GPUs.

    groups: those who look at the same GPUs, whose offers are gathered once for all.
    """

    __slots__ = ("groups", "node", "whole")

    def __init__(self, node: NodeState, whole: bool) -> None:
        self.node, self.whole = node, whole
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
        self._tell(roomy)

    def leave(self) -> None:
        """The node goes out of every index."""
        for _, watchers in self.groups:
            for rooms, _, seat in watchers:
                rooms.put(seat, self.node.name, ())
        self.groups.clear()
        self._tell(False)

    def _tell(self, roomy: bool) -> None:
        if self.whole:
            self.node.roomy_wholes = roomy
        else:
            self.node.roomy_shares = roomy


def _whole_rooms(idle: list[int], gpus: int, free: int) -> tuple[Room, ...]:
    """One room for each size of idle GPU that a worker may have to start from."""
    if idle[0] == idle[-1]:
        return ((idle[0], idle[0] * gpus, free - idle[0] * gpus),)
    starts = [at for at in range(len(idle) - gpus + 1) if at == 0 or idle[at] != idle[at - 1]]
    return tuple((idle[at], takes := sum(idle[at : at + gpus]), free - takes) for at in starts)
