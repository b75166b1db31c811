"""Finders of one GPU for a policy: what `core.buckets` is for best fit.

`Idles` gives whole idle GPUs: the smallest that is large enough, of the node with fewest idle ones, so that nodes that are
wholly idle stay so for asks of many GPUs. `Shelves` gives a part of one: by the rise of its residual value and the cost
of its size. Like the buckets, both are told where a GPU is now and forget where it was when they come upon it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Protocol

from core.buckets import Buckets, Finder
from core.ledger_state import GpuState, NodeState
from core.residual import Residuals

_SLACK = 32  # a heap up to this length is not worth sweeping


class Ranking(Protocol):
    """What a policy knows. residuals: of all its finders. costs: by MiB per GPU, in MiB of rise; replaced when it changes."""

    residuals: Residuals
    costs: Mapping[int, float]


class _Nodes:
    """Nodes that may have `count` idle GPUs of a size, by name."""

    __slots__ = ("count", "heap", "known", "limit")

    def __init__(self, count: int) -> None:
        self.count, self.limit = count, _SLACK
        self.heap: list[tuple[str, int, NodeState]] = []
        self.known: set[NodeState] = set()


class Idles(Finder[GpuState]):
    """Whole idle GPUs. part_of: the shelves that it is a part of; None: it stands alone."""

    __slots__ = ("_nodes", "_part_of", "_sizes")

    def __init__(self, part_of: Shelves | None = None) -> None:
        self._part_of = part_of
        self._sizes: list[int] = []
        self._nodes: dict[int, dict[int, _Nodes]] = {}

    def put(self, gpu: GpuState, was: int) -> None:
        self.moved(gpu)

    def moved(self, gpu: GpuState) -> None:
        """It has become idle, or is so no more."""
        node, total = gpu.node, gpu.total
        idle = self._idle(node, total)
        if not idle:
            return
        by_count = self._nodes.get(total)
        if by_count is None:
            by_count = self._nodes[total] = {}
            insort(self._sizes, total)
        nodes = by_count.get(len(idle))
        if nodes is None:
            nodes = by_count[len(idle)] = _Nodes(len(idle))
        if node not in nodes.known:
            nodes.known.add(node)
            heappush(nodes.heap, (node.name, idle[0].entry[2], node))
            if len(nodes.heap) > nodes.limit:
                self._sweep(nodes, total)

    def first(self, need: int) -> GpuState | None:
        for size in self._sizes[bisect_left(self._sizes, need) :]:
            gpu = self.of_size(size)
            if gpu is not None:
                return gpu
        return None

    def greatest(self) -> int:
        return next((size for size in reversed(self._sizes) if self.of_size(size) is not None), 0)

    def of_size(self, total: int) -> GpuState | None:
        by_count = self._nodes.get(total, {})
        for count in sorted(by_count):
            nodes = by_count[count]
            while nodes.heap:
                node = nodes.heap[0][2]
                idle = self._idle(node, total)
                if len(idle) == count:
                    return idle[0]
                heappop(nodes.heap)
                nodes.known.remove(node)
        return None

    def _idle(self, node: NodeState, total: int) -> list[GpuState]:
        shelves = self._part_of
        if shelves is None:
            return [gpu for gpu in node.gpus.values() if gpu.offer == total == gpu.total and self in gpu.finders.idles]
        return [gpu for gpu in node.gpus.values() if gpu.offer == total == gpu.total and shelves in gpu.finders.buckets]

    def _sweep(self, nodes: _Nodes, total: int) -> None:
        nodes.heap = [each for each in nodes.heap if len(self._idle(each[2], total)) == nodes.count]
        heapify(nodes.heap)
        nodes.known = {each[2] for each in nodes.heap}
        nodes.limit = 2 * len(nodes.heap) + _SLACK


class _Shelf:
    """GPUs of one size: those with something booked by what they offer, and whether there may be idle ones.

    levels: bits of the levels on which there may be some.
    """

    __slots__ = ("buckets", "levels", "total")

    def __init__(self, total: int) -> None:
        self.total, self.levels = total, 0
        self.buckets: Buckets[GpuState] = Buckets()


class Shelves(Finder[GpuState]):
    """A part of a GPU."""

    __slots__ = ("_costs", "_idles", "_quantum", "_ranking", "_shelves", "_tiers")

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._shelves: dict[int, _Shelf] = {}
        self._idles = Idles(self)
        self._quantum = ranking.residuals.quantum
        self._costs: Mapping[int, float] | None = None
        self._tiers: list[tuple[float, list[_Shelf]]] = []

    def put(self, gpu: GpuState, was: int) -> None:
        shelf = self._shelves.get(gpu.total)
        if shelf is None:
            shelf = self._shelves[gpu.total] = _Shelf(gpu.total)
            self._costs = None
        if gpu.offer == gpu.total:
            self._idles.moved(gpu)
        else:
            shelf.buckets.put(gpu, was)
        shelf.levels |= 1 << gpu.offer // self._quantum

    def moved(self, gpu: GpuState) -> None:
        """It has become idle, or is so no more."""
        self._idles.moved(gpu)

    def first(self, need: int) -> GpuState | None:
        """The GPU of least rise and cost; among equals the tightest."""
        self._follow()
        quantum, residuals = self._quantum, self._ranking.residuals
        low, rest = divmod(need, quantum)
        groups = residuals.groups(low + (rest > 0))
        while True:
            best, at, chosen = 0.0, -1, None
            for cost, shelves in self._tiers:
                levels = 0
                for shelf in shelves:
                    levels |= shelf.levels
                for rise, mask in groups:
                    if chosen is not None and rise + cost >= best:
                        break
                    hit = levels & mask
                    if hit:
                        best, at, chosen = rise + cost, (hit & -hit).bit_length() - 1, shelves
                        break
            exact = self._snug(need, low) if rest else None
            if exact is not None and (chosen is None or exact[0] <= best):
                return exact[1]
            if chosen is None:
                return None
            gpu = self._on(chosen, at)
            if gpu is not None:
                return gpu

    def greatest(self) -> int:
        return max((self._idles.greatest(), *(shelf.buckets.greatest() for shelf in self._shelves.values())))

    def _snug(self, need: int, low: int) -> tuple[float, GpuState] | None:
        """On the level that an ask lies within, only some GPUs have room: the cheapest size that has one, and its rise."""
        found: tuple[float, GpuState] | None = None
        for cost, shelves in self._tiers:
            for shelf in shelves:
                if shelf.levels >> low & 1 and (found is None or cost < found[0]):
                    gpu = shelf.buckets.first(need)
                    if (gpu is None or gpu.offer // self._quantum != low) and shelf.total // self._quantum == low and shelf.total >= need:
                        gpu = self._idles.of_size(shelf.total)
                    if gpu is not None and gpu.offer // self._quantum == low:
                        found = (cost, gpu)
        return None if found is None else (found[0] + self._ranking.residuals.rise(low, 0), found[1])

    def _on(self, shelves: list[_Shelf], level: int) -> GpuState | None:
        """One on that level; a level on which there is none is forgotten."""
        for shelf in shelves:
            if shelf.levels >> level & 1:
                gpu = shelf.buckets.first(level * self._quantum)
                if gpu is not None and gpu.offer // self._quantum == level:
                    return gpu
                gpu = self._idles.of_size(shelf.total) if shelf.total // self._quantum == level else None
                if gpu is not None:
                    return gpu
                shelf.levels ^= 1 << level
        return None

    def _follow(self) -> None:
        """Take up new costs, and another quantum."""
        if self._quantum != self._ranking.residuals.quantum:
            self._quantum = self._ranking.residuals.quantum
            for shelf in self._shelves.values():
                shelf.levels = (1 << shelf.total // self._quantum + 1) - 1  # what is not there is forgotten again
        if self._costs is not self._ranking.costs:
            self._costs, tiers = self._ranking.costs, dict[float, list[_Shelf]]()
            for total in sorted(self._shelves):
                tiers.setdefault(self._costs.get(total, 0.0), []).append(self._shelves[total])
            self._tiers = sorted(tiers.items(), key=lambda each: each[0])
