"""Finders of one GPU for a policy: what `core.buckets` is for best fit.

`Idles` gives whole idle GPUs: the smallest that is large enough, of the node with fewest idle ones, so that nodes that are
wholly idle stay so for asks of many GPUs. `Shelves` gives a part of one, by the rise of its residual value. Like the
buckets, both are told where a GPU is now and forget where it was when they come upon it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heappush

from core.buckets import Buckets, Finder
from core.ledger_state import GpuState, NodeState
from core.residual import Residuals

_SLACK = 32  # a heap up to this length is not worth sweeping


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

    def gone(self, gpu: GpuState) -> None:
        """Likewise."""

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


class Shelves(Finder[GpuState]):
    """A part of a GPU: those in use for parts by what they offer, and idle ones by size.

    levels: bits of the levels of `Residuals` on which there may be some that are in use.
    """

    __slots__ = ("_levels", "_quantum", "_residuals", "idles", "in_use", "sizes")

    def __init__(self, residuals: Residuals) -> None:
        self._residuals, self._quantum, self._levels = residuals, residuals.quantum, 0
        self.in_use: Buckets[GpuState] = Buckets()
        self.idles = Idles(self)
        self.sizes: list[int] = []

    def put(self, gpu: GpuState, was: int) -> None:
        if gpu.offer == gpu.total:
            self.idles.moved(gpu)
            at = bisect_left(self.sizes, gpu.total)
            if at == len(self.sizes) or self.sizes[at] != gpu.total:
                self.sizes.insert(at, gpu.total)
            return
        self.in_use.put(gpu, was)
        if gpu.offer > 0:
            self._levels |= 1 << gpu.offer // self._quantum

    def moved(self, gpu: GpuState) -> None:
        """It has become idle, or is so no more."""
        self.idles.moved(gpu)

    def gone(self, gpu: GpuState) -> None:
        """What is left of it is forgotten when it is come upon."""

    def first(self, need: int) -> GpuState | None:
        """The GPU on which the residual value rises least; among equals the tightest."""
        return self.least(need, self.least_idle(need)) or self.tightest(need)

    def greatest(self) -> int:
        return max(self.idles.greatest(), self.in_use.greatest())

    def tightest(self, need: int) -> GpuState | None:
        """As best fit has it."""
        used, idle = self.in_use.first(need), self.idles.first(need)
        return used if idle is None or (used is not None and used.offer <= idle.total) else idle

    def least(self, need: int, idle: GpuState | None) -> GpuState | None:
        """That one, or one in use on which the residual value rises no more than on it."""
        self._follow()
        quantum, residuals = self._quantum, self._residuals
        low, rest = divmod(need, quantum)
        most = None if idle is None else self.rise(need, idle.total)
        if rest and self._levels >> low & 1 and (most is None or residuals.rise(low, 0) <= most):
            used = self.in_use.first(need)  # on the level that the ask lies within, only some have room
            if used is not None and used.offer // quantum == low:
                idle, most = used, residuals.rise(low, 0)
        while True:
            level = self._level(low + (rest > 0), most)
            if level < 0:
                return idle
            used = self.in_use.first(level * quantum)
            if used is not None and used.offer // quantum == level:
                return used
            self._levels ^= 1 << level  # none is there any more

    def least_idle(self, need: int) -> GpuState | None:
        """The idle one on which it rises least; among equals the smallest."""
        best, chosen = 0.0, None
        for size in self.sizes[bisect_left(self.sizes, need) :]:
            rise = self.rise(need, size)
            if chosen is None or rise < best:
                idle = self.idles.of_size(size)
                if idle is not None:
                    best, chosen = rise, idle
        return chosen

    def rise(self, need: int, size: int) -> float:
        """Of the residual value of an idle GPU, in MiB."""
        quantum = self._residuals.quantum
        level = size // quantum
        return self._residuals.rise(level, max(0, level - -(-need // quantum)))

    def _level(self, need: int, most: float | None) -> int:
        """The level of least rise, and of no more than `most`, on which there may be one; -1: there is none."""
        for rise, mask in self._residuals.groups(need):
            if most is not None and rise > most:
                return -1
            hit = self._levels & mask
            if hit:
                return (hit & -hit).bit_length() - 1
        return -1

    def _follow(self) -> None:
        """Take up another quantum."""
        if self._quantum != self._residuals.quantum:
            self._quantum = self._residuals.quantum
            self._levels = (1 << max(self.sizes, default=0) // self._quantum + 1) - 1  # what is not there is forgotten again
