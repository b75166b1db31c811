"""Nodes with room for k GPUs of one kind: the one left with least, without looking at the others.

A node has one *room* for each amount up to which its best k GPUs serve: (upto, takes, left), which reads "asks of at
most `upto` MiB per GPU take `takes` MiB here and leave `left` MiB free". What is wanted is the least (takes, left, name)
among rooms whose `upto` is enough. Rooms lie in heaps by `upto`, at three scales: each exact amount, each block of 64,
each block of 4,096; a bitmask says which heaps have something. A query looks at the tops of at most 63 + 63 +
(greatest amount / 4,096) heaps, however many nodes there are. As in `core.buckets`, what is outdated is left behind
and goes when it comes to the top.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

_BITS = 6  # of the amount, per scale
_LOW = (1 << _BITS) - 1
_TOP = 2
_SLACK = 32  # outdated entries that a heap may have before it is worth sweeping

N = TypeVar("N")
Room = tuple[int, int, int]  # upto: MiB per GPU; takes, left: MiB of the node
Entry = tuple[int, int, str, int, N, int]  # takes, left, node name, stamp, node, upto


class _Heap(list[Entry[N]], Generic[N]):
    """limit: length at which outdated entries are swept out."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        self.limit = _SLACK


class _Scale(Generic[N]):
    """heaps: by block. masks: by 64 blocks, which of them have a heap; at the top scale, one mask under 0."""

    __slots__ = ("heaps", "masks", "shift", "top")

    def __init__(self, number: int) -> None:
        self.shift, self.top = number * _BITS, number == _TOP
        self.heaps: dict[int, _Heap[N]] = {}
        self.masks: dict[int, int] = {}

    def place(self, block: int) -> tuple[int, int]:
        """Which mask a block is in, and which bit."""
        return (0, block) if self.top else (block >> _BITS, block & _LOW)

    def heap(self, block: int) -> _Heap[N]:
        found = self.heaps.get(block)
        if found is None:
            found = self.heaps[block] = _Heap()
            group, bit = self.place(block)
            self.masks[group] = self.masks.get(group, 0) | 1 << bit
        return found

    def drop(self, block: int) -> None:
        del self.heaps[block]
        group, bit = self.place(block)
        self.masks[group] &= ~(1 << bit)
        if not self.masks[group]:
            del self.masks[group]


class Rooms(Generic[N]):
    """The rooms of all nodes, for one k."""

    __slots__ = ("_now", "_scales", "_stamp", "_stamps")

    def __init__(self) -> None:
        self._scales: tuple[_Scale[N], ...] = (_Scale(0), _Scale(1), _Scale(2))
        self._now: dict[N, tuple[Room, ...]] = {}
        self._stamps: dict[N, int] = {}
        self._stamp = 0

    def put(self, node: N, name: str, rooms: tuple[Room, ...]) -> None:
        """These are the node's rooms from now on; none at all takes it out."""
        if self._now.get(node, ()) == rooms:
            return
        if not rooms:
            del self._now[node], self._stamps[node]
            return
        self._stamp = stamp = self._stamp + 1
        self._now[node], self._stamps[node] = rooms, stamp
        for upto, takes, left in rooms:
            entry = (takes, left, name, stamp, node, upto)
            for scale in self._scales:
                heap = scale.heap(upto >> scale.shift)
                heappush(heap, entry)
                if len(heap) > heap.limit:
                    self._sweep(heap)

    def best(self, need: int) -> N | None:
        """The node with the least (takes, left, name) among rooms that serve `need` MiB per GPU."""
        best: Entry[N] | None = None
        first = need  # the first block of a scale that serves as a whole
        for scale in self._scales:
            group, bit = scale.place(first)
            bits = scale.masks.get(group, 0) >> bit
            while bits:
                low = bits & -bits
                bits ^= low
                top = self._live(scale, first + low.bit_length() - 1)
                if top is not None and (best is None or top < best):
                    best = top
            first = (need >> scale.shift + _BITS) + 1
        return None if best is None else best[4]

    def greatest(self) -> int:
        """The greatest `upto` of all rooms, 0 if there are none."""
        group, base = 0, 0
        for scale in reversed(self._scales):
            while mask := scale.masks.get(group, 0):
                block = base + mask.bit_length() - 1
                if self._live(scale, block) is not None:
                    group, base = block, block << _BITS
                    break
            else:
                return 0
        return group

    def _live(self, scale: _Scale[N], block: int) -> Entry[N] | None:
        heap, stamps = scale.heaps[block], self._stamps
        while heap:
            top = heap[0]
            if stamps.get(top[4]) == top[3]:
                return top
            heappop(heap)
        scale.drop(block)
        return None

    def _sweep(self, heap: _Heap[N]) -> None:
        """Its cost is spread over the pushes that doubled the heap."""
        heap[:] = [entry for entry in heap if self._stamps.get(entry[4]) == entry[3]]
        heapify(heap)
        heap.limit = 2 * len(heap) + _SLACK
