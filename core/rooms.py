"""Nodes with room for k GPUs of one kind: the one left with least, without looking at the others.

A node has one *room* for each amount up to which its best k GPUs serve: (upto, takes, left), which reads "asks of at
most `upto` MiB per GPU take `takes` MiB here and leave `left` MiB free". What is wanted is the least (takes, left, name)
among rooms whose `upto` is enough. Rooms lie in heaps by `upto`, at three scales: each exact amount, each block of 64,
each block of 4,096. A query looks at the tops of at most 64 + 64 + (greatest amount / 4,096) heaps, however many
nodes there are. As in `core.buckets`, what is outdated is left behind and goes when it comes to the top.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from attrs import frozen

_SCALES = (0, 6, 12)
_SLACK = 32

N = TypeVar("N")
# takes, left, node name, stamp, node, upto
Entry = tuple[int, int, str, int, N, int]


@frozen
class Room:
    """upto: MiB per GPU. takes, left: MiB of the node."""

    upto: int
    takes: int
    left: int


class _Heap(list[Entry[N]], Generic[N]):
    """limit: length at which outdated entries are swept out."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        self.limit = _SLACK


class Rooms(Generic[N]):
    """The rooms of all nodes, for one k."""

    __slots__ = ("_heaps", "_now", "_stamp")

    def __init__(self) -> None:
        self._heaps: tuple[dict[int, _Heap[N]], ...] = ({}, {}, {})
        self._now: dict[N, tuple[int, tuple[Room, ...]]] = {}
        self._stamp = 0

    def put(self, node: N, name: str, rooms: tuple[Room, ...]) -> None:
        """These are the node's rooms from now on; none at all takes it out."""
        before = self._now.get(node)
        if before is not None and before[1] == rooms:
            return
        if not rooms:
            self._now.pop(node, None)
            return
        self._stamp += 1
        self._now[node] = (self._stamp, rooms)
        for room in rooms:
            self._push((room.takes, room.left, name, self._stamp, node, room.upto))

    def best(self, need: int) -> N | None:
        """The node with the least (takes, left, name) among rooms that serve `need` MiB per GPU."""
        best: Entry[N] | None = None
        for scale, first, end in self._ranges(need):
            heaps = self._heaps[scale]
            for block in range(first, end):
                if block in heaps and (top := self._live(scale, block)) is not None and (best is None or top[:3] < best[:3]):
                    best = top
        return None if best is None else best[4]

    def greatest(self) -> int:
        """The greatest `upto` of all rooms, 0 if there are none."""
        first, end = 0, max(self._heaps[2], default=-1) + 1
        for scale in (2, 1, 0):
            for block in range(end - 1, first - 1, -1):
                if block in self._heaps[scale] and self._live(scale, block) is not None:
                    first, end = block << 6, block + 1 << 6
                    break
            else:
                return 0
        return first >> 6

    def _ranges(self, need: int) -> tuple[tuple[int, int, int], ...]:
        """(scale, first block, end) that together cover every amount from `need` up, each once."""
        fine = (need + 63) >> 6
        coarse = (fine + 63) >> 6
        return (0, need, fine << 6), (1, fine, coarse << 6), (2, coarse, max(self._heaps[2], default=-1) + 1)

    def _push(self, entry: Entry[N]) -> None:
        for heaps, shift in zip(self._heaps, _SCALES, strict=True):
            heap = heaps.get(entry[5] >> shift)
            if heap is None:
                heap = heaps[entry[5] >> shift] = _Heap()
            heappush(heap, entry)
            if len(heap) > heap.limit:
                heap[:] = filter(self._is_now, heap)
                heapify(heap)
                heap.limit = 2 * len(heap) + _SLACK

    def _live(self, scale: int, block: int) -> Entry[N] | None:
        heap = self._heaps[scale][block]
        while heap:
            if self._is_now(heap[0]):
                return heap[0]
            heappop(heap)
        del self._heaps[scale][block]
        return None

    def _is_now(self, entry: Entry[N]) -> bool:
        now = self._now.get(entry[4])
        return now is not None and now[0] == entry[3]
