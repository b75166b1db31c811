"""Nodes with room for k GPUs of one kind: the one left with least, without looking at the others.

A node has one *room* for each amount up to which its best k GPUs serve: (upto, takes, left), which reads "asks of at
most `upto` MiB per GPU take `takes` MiB here and leave `left` MiB free". What is wanted is the least (takes, left, name)
among rooms whose `upto` is enough. Rooms lie in heaps by their exact `upto`; the best of each 64 amounts is known, and
the best of each 64 of those. A query looks at no more than 64 heaps, 63 bests and (greatest amount / 4,096) bests of
bests, however many nodes there are.

What is known of a block is never worse than what is in it, but may be outdated: then it is found anew from the 64
blocks below it, and only when a query would choose it.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

_BITS = 6  # of an amount, per level
_LOW = (1 << _BITS) - 1
_SLACK = 32  # a heap up to this length is not worth sweeping

N = TypeVar("N")
Room = tuple[int, int, int]  # upto: MiB per GPU; takes, left: MiB of the node
Entry = tuple[int, int, str, int, "Seat[N]", int]  # takes, left, node name, stamp, seat, upto


class Seat(Generic[N]):
    """A node's place in one `Rooms`. stamp: of those of its entries that hold now."""

    __slots__ = ("node", "rooms", "stamp")

    def __init__(self, node: N) -> None:
        self.node, self.stamp = node, 0
        self.rooms: tuple[Room, ...] = ()


class _Level(Generic[N]):
    """Blocks of 2**shift amounts each. masks: which of 64 neighbours there are; of the topmost level, of all, under 0."""

    __slots__ = ("masks", "shift", "topmost")

    def __init__(self, shift: int, topmost: bool = False) -> None:
        self.shift, self.topmost = shift, topmost
        self.masks: dict[int, int] = {}

    def mark(self, block: int) -> None:
        group, bit = (0, block) if self.topmost else (block >> _BITS, block & _LOW)
        self.masks[group] = self.masks.get(group, 0) | 1 << bit

    def unmark(self, block: int) -> None:
        group, bit = (0, block) if self.topmost else (block >> _BITS, block & _LOW)
        self.masks[group] ^= 1 << bit
        if not self.masks[group]:
            del self.masks[group]

    def neighbours(self, first: int) -> int:
        """A bit for each block from `first` on that there is, up to the end of its 64."""
        return self.masks.get(0, 0) >> first if self.topmost else self.masks.get(first >> _BITS, 0) >> (first & _LOW)

    def better(self, first: int, than: Entry[N] | None) -> Entry[N] | None:
        """The best of `than` and of the blocks from `first` on, up to the end of its 64."""
        raise NotImplementedError

    def find(self, block: int) -> Entry[N] | None:
        """The best in that block; an empty block is forgotten."""
        raise NotImplementedError


class _Heaps(_Level[N]):
    """One block per exact amount."""

    __slots__ = ("heaps", "limits")

    def __init__(self) -> None:
        super().__init__(0)
        self.heaps: dict[int, list[Entry[N]]] = {}
        self.limits: dict[int, int] = {}  # length at which a large heap is swept again

    def put(self, entry: Entry[N]) -> None:
        upto = entry[5]
        heap = self.heaps.get(upto)
        if heap is None:
            self.heaps[upto] = [entry]
            self.mark(upto)
            return
        top = heap[0]
        if top[4].stamp != top[3]:
            heapreplace(heap, entry)
            return
        heappush(heap, entry)
        if len(heap) > _SLACK and len(heap) > self.limits.get(upto, _SLACK):
            heap[:] = [each for each in heap if each[4].stamp == each[3]]
            heapify(heap)
            self.limits[upto] = 2 * len(heap) + _SLACK

    def leave(self, upto: int, seat: Seat[N]) -> None:
        """What that seat has there is over: a heap of nothing else goes at once, so that no query has to."""
        heap = self.heaps.get(upto)
        if heap is not None and len(heap) == 1 and heap[0][4] is seat:
            self._drop(upto)

    def better(self, first: int, than: Entry[N] | None) -> Entry[N] | None:
        heaps, bits = self.heaps, self.neighbours(first)
        while bits:
            low = bits & -bits
            bits ^= low
            block = first + low.bit_length() - 1
            found: Entry[N] | None = heaps[block][0]
            if found is not None and (than is None or found < than):
                if found[4].stamp != found[3]:
                    found = self.find(block)
                if found is not None and (than is None or found < than):
                    than = found
        return than

    def find(self, block: int) -> Entry[N] | None:
        heap = self.heaps[block]
        while heap:
            top = heap[0]
            if top[4].stamp == top[3]:
                return top
            heappop(heap)
        self._drop(block)
        return None

    def _drop(self, block: int) -> None:
        del self.heaps[block]
        self.limits.pop(block, None)
        self.unmark(block)


class _Bests(_Level[N]):
    """The best of each 64 blocks of the level below."""

    __slots__ = ("below", "bests")

    def __init__(self, below: _Level[N], topmost: bool = False) -> None:
        super().__init__(below.shift + _BITS, topmost)
        self.below = below
        self.bests: dict[int, Entry[N]] = {}

    def put(self, entry: Entry[N]) -> None:
        block = entry[5] >> self.shift
        known = self.bests.get(block)
        if known is None:
            self.mark(block)
            self.bests[block] = entry
        elif entry < known:
            self.bests[block] = entry

    def better(self, first: int, than: Entry[N] | None) -> Entry[N] | None:
        bests, bits = self.bests, self.neighbours(first)
        while bits:
            low = bits & -bits
            bits ^= low
            block = first + low.bit_length() - 1
            found: Entry[N] | None = bests[block]
            if found is not None and (than is None or found < than):
                if found[4].stamp != found[3]:
                    found = self.find(block)
                if found is not None and (than is None or found < than):
                    than = found
        return than

    def find(self, block: int) -> Entry[N] | None:
        known = self.bests[block]
        if known[4].stamp == known[3]:
            return known
        found = self.below.better(block << _BITS, None)
        if found is None:
            del self.bests[block]
            self.unmark(block)
        else:
            self.bests[block] = found
        return found


class Rooms(Generic[N]):
    """The rooms of all nodes, for one k."""

    __slots__ = ("_bests", "_heaps", "_stamp", "_tops")

    def __init__(self) -> None:
        self._heaps: _Heaps[N] = _Heaps()
        self._bests: _Bests[N] = _Bests(self._heaps)
        self._tops: _Bests[N] = _Bests(self._bests, topmost=True)
        self._stamp = 0

    def put(self, seat: Seat[N], name: str, rooms: tuple[Room, ...]) -> None:
        """These are the rooms of the seat's node from now on; none at all takes it out."""
        if seat.rooms == rooms:
            return
        for upto, _, _ in seat.rooms:
            self._heaps.leave(upto, seat)
        seat.rooms = rooms
        seat.stamp = self._stamp = self._stamp + 1
        for upto, takes, left in rooms:
            entry = (takes, left, name, seat.stamp, seat, upto)
            self._heaps.put(entry)
            self._bests.put(entry)
            self._tops.put(entry)

    def best(self, need: int) -> N | None:
        """The node with the least (takes, left, name) among rooms that serve `need` MiB per GPU."""
        best = self._tops.better((need >> 2 * _BITS) + 1, None)
        best = self._bests.better((need >> _BITS) + 1, best)
        best = self._heaps.better(need, best)
        return None if best is None else best[4].node

    def greatest(self) -> int:
        """The greatest `upto` of all rooms, 0 if there are none."""
        first = 0
        for level in (self._tops, self._bests, self._heaps):
            while bits := level.neighbours(first):
                block = first + bits.bit_length() - 1
                if level.find(block) is not None:
                    first = block << _BITS
                    break
            else:
                return 0
        return first >> _BITS
