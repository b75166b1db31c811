"""The indexes that answer for one kind of GPU each: which one is tightest, which node is left with least.

An index exists from the first ask on that needs it: per pool, model, vendor, exclusive or not, and number of GPUs per
worker. Making it reads its pool's nodes once; from then on every change keeps it. It is not made for an ask that no node
could ever serve, so what users ask for can't make more of them than the fleet has kinds.

A booking changes the rooms of its node in every index for several GPUs. That is put off until such an ask comes, a release
has the time for it, or more than a few nodes are out of date.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from core.buckets import Buckets, Finder
from core.census import Census
from core.ledger_state import Finders, GpuState, NodeState
from core.owners import Pool
from core.policies import Policy
from core.rooms import Rooms, Seat
from ports.workloads import Ask

_BACKLOG = 8  # nodes whose rooms may be out of date before a booking has to bring one up to date


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

    def covers(self, owner: str, model: str, vendor: str) -> bool:
        """Whether it is about GPUs of that owner, model and vendor."""
        return self.pool.has(owner) and self.model in (None, model) and self.vendor in (None, vendor)


class GpuIndex:
    """Finds one GPU of a kind: the tightest, or what the policy says."""

    __slots__ = ("buckets", "kind")

    def __init__(self, kind: Kind, policy: Policy | None) -> None:
        self.kind = kind
        self.buckets: Finder[GpuState] = Buckets() if policy is None else policy.finder(kind.exclusive)

    def join(self, node: NodeState) -> None:
        for gpu in self.kind.of(node):
            if gpu.offer >= 0 and (gpu.offer == gpu.total or not self.kind.exclusive):
                self.buckets.put(gpu, -1)

    def among(self, finders: Finders) -> None:
        (finders.idles if self.kind.exclusive else finders.buckets).append(self.buckets)


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


class Indexes:
    """All indexes that asks have needed so far."""

    __slots__ = ("_census", "_finders", "_policy", "_several", "_shares", "_single", "_wholes")

    def __init__(self, census: Census) -> None:
        self._census = census
        self._policy: Policy | None = None
        self._single: dict[tuple[str, str | None, str | None, bool], GpuIndex] = {}
        self._several: dict[tuple[str, str | None, str | None, bool, int], RoomIndex] = {}
        self._finders: dict[tuple[str, str, str], Finders] = {}  # by owner, model and vendor
        self._shares: dict[NodeState, None] = {}  # whose rooms for shares are out of date
        self._wholes: dict[NodeState, None] = {}  # likewise, for whole GPUs

    def one(self, ask: Ask, pool: Pool) -> GpuState | int:
        """The GPU to take; or the MiB that came closest."""
        single = self._single.get((pool.owners, ask.model, ask.vendor, ask.exclusive)) or self._make_single(pool, ask)
        if single is None:
            return 0
        return single.buckets.first(ask.mib.n) or single.buckets.greatest()

    def worker(self, ask: Ask, pool: Pool) -> list[GpuState] | int:
        """The GPUs of one worker; or the MiB per GPU that came closest."""
        if ask.gpus == 1:
            gpu = self.one(ask, pool)
            return gpu if isinstance(gpu, int) else [gpu]
        several = self._several.get((pool.owners, ask.model, ask.vendor, ask.exclusive, ask.gpus)) or self._make_several(pool, ask)
        if several is None:
            return 0
        self._refresh_wholes() if ask.exclusive else self._refresh_shares()
        node = several.rooms.best(ask.mib.n)
        return several.rooms.greatest() if node is None else several.choose(node, ask.mib.n)

    def follow(self, policy: Policy) -> None:
        """From now on the policy says which GPU an ask for one gets: its indexes are made when they are needed."""
        self._policy = policy
        self._single.clear()
        for finders in self._finders.values():
            finders.buckets.clear()
            finders.idles.clear()

    def join(self, node: NodeState) -> None:
        """Take a node into every index that it belongs to."""
        for gpu in node.gpus.values():
            if gpu.spec is not None:
                gpu.finders = self._finders_of(node.owner, gpu.spec.model, gpu.spec.vendor)
        indexes: Iterator[GpuIndex | RoomIndex] = chain(self._single.values(), self._several.values())
        for index in indexes:
            if index.kind.pool.has(node.owner):
                index.join(node)

    def leave(self, node: NodeState) -> None:
        """Take a node out of every index; its GPUs close."""
        for watch, backlog in ((node.shares, self._shares), (node.wholes, self._wholes)):
            watch.leave()
            backlog.pop(node, None)
        for gpu in node.gpus.values():
            gpu.offer = -1
            for finder in chain(gpu.finders.idles, gpu.finders.buckets):
                finder.gone(gpu)

    def outdate(self, gpu: GpuState, more: int) -> None:
        """A GPU has `more` (or, negative, less) free: note whose rooms may have changed."""
        node = gpu.node
        if node.roomy_shares or (more > 0 and node.shares.groups):
            self._shares[node] = None
        if node.roomy_wholes or (gpu.free == gpu.total and node.wholes.groups):
            self._wholes[node] = None
        if self._policy is not None and more < 0 and gpu.free - more == gpu.total:
            for finder in chain(gpu.finders.idles, gpu.finders.buckets):
                finder.moved(gpu)

    def keep_up(self) -> None:
        """Before a booking: let no more than a few nodes be out of date."""
        if len(self._shares) > _BACKLOG:
            self._shares.popitem()[0].shares.refresh()
        if len(self._wholes) > _BACKLOG:
            self._wholes.popitem()[0].wholes.refresh()

    def catch_up(self) -> None:
        """Bring every node up to date."""
        self._refresh_shares()
        self._refresh_wholes()

    def _refresh_shares(self) -> None:
        while self._shares:
            self._shares.popitem()[0].shares.refresh()

    def _refresh_wholes(self) -> None:
        while self._wholes:
            self._wholes.popitem()[0].wholes.refresh()

    def _finders_of(self, owner: str, model: str, vendor: str) -> Finders:
        found = self._finders.get((owner, model, vendor))
        if found is None:
            found = self._finders[owner, model, vendor] = Finders()
            for index in self._single.values():
                if index.kind.covers(owner, model, vendor):
                    index.among(found)
        return found

    def _make_single(self, pool: Pool, ask: Ask) -> GpuIndex | None:
        if not self._census.capacity(Ask(ask.mib, model=ask.model, vendor=ask.vendor), pool):
            return None
        made = GpuIndex(Kind(pool, ask), self._policy)
        for key, finders in self._finders.items():
            if made.kind.covers(*key):
                made.among(finders)
        for node in self._census.members(pool):
            made.join(node)
        self._single[pool.owners, ask.model, ask.vendor, ask.exclusive] = made
        return made

    def _make_several(self, pool: Pool, ask: Ask) -> RoomIndex | None:
        if not self._census.capacity(Ask(ask.mib, ask.gpus, model=ask.model, vendor=ask.vendor), pool):
            return None
        made = RoomIndex(Kind(pool, ask), ask.gpus, self._census.members(pool))
        self._several[pool.owners, ask.model, ask.vendor, ask.exclusive, ask.gpus] = made
        return made
