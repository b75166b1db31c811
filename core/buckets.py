"""GPUs of one kind by their free MiB: the tightest that is wide enough, without looking at the others.

A bucket per amount of free MiB, and a bitmask of buckets that may have something in them, in words of 256 bits under
a word of words: the first bit at or above what is needed is the bucket. In a bucket, a heap by node name and GPU
index. A GPU that moves is only pushed to where it is now; where it was, its entry is stale, and goes when it comes
to the top. So a move costs O(log n) of its bucket, and every entry is popped once.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

_WORD = 256
_SLACK = 32  # stale entries that a heap may have before it is worth sweeping


class Offered(Protocol):
    """offer: MiB that it offers now; an entry under another amount is stale. 0 or less: nothing."""

    offer: int


G = TypeVar("G", bound=Offered)
# node name, GPU index, a number that makes ties impossible, the GPU
Entry = tuple[str, int, int, G]


class _Heap(list[Entry[G]], Generic[G]):
    """limit: length at which stale and double entries are swept out."""

    __slots__ = ("limit",)

    def __init__(self) -> None:
        self.limit = _SLACK


class Buckets(Generic[G]):
    """What is offered, by amount."""

    __slots__ = ("_heaps", "_top", "_words")

    def __init__(self) -> None:
        self._heaps: dict[int, _Heap[G]] = {}
        self._words: dict[int, int] = {}
        self._top = 0

    def put(self, entry: Entry[G], offer: int) -> None:
        """The GPU of `entry` offers that much from now on (more than 0)."""
        heap = self._heaps.get(offer)
        if heap is None:
            heap = self._heaps[offer] = _Heap()
            high = offer // _WORD
            word = self._words.get(high, 0)
            if not word:
                self._top |= 1 << high
            self._words[high] = word | 1 << offer % _WORD
        heappush(heap, entry)
        if len(heap) > heap.limit:
            _sweep(heap, offer)

    def first(self, need: int) -> Entry[G] | None:
        """The entry with the least offer of at least `need`; among equals the first by name and index."""
        while (offer := self._at_least(need)) is not None:
            if (entry := self._live(offer)) is not None:
                return entry
        return None

    def greatest(self) -> int:
        """The greatest amount that is offered, 0 if nothing is."""
        while self._top:
            high = self._top.bit_length() - 1
            offer = high * _WORD + self._words[high].bit_length() - 1
            if self._live(offer) is not None:
                return offer
        return 0

    def _at_least(self, need: int) -> int | None:
        high = need // _WORD
        word = self._words.get(high, 0) >> need % _WORD
        if word:
            return need + (word & -word).bit_length() - 1
        words = self._top >> high + 1
        if not words:
            return None
        high += (words & -words).bit_length()
        word = self._words[high]
        return high * _WORD + (word & -word).bit_length() - 1

    def _live(self, offer: int) -> Entry[G] | None:
        """The first entry of a bucket that is not stale; an empty bucket is dropped."""
        heap = self._heaps[offer]
        while heap:
            entry = heap[0]
            if entry[3].offer == offer:
                return entry
            heappop(heap)
        self._drop(offer)
        return None

    def _drop(self, offer: int) -> None:
        del self._heaps[offer]
        high = offer // _WORD
        word = self._words[high] & ~(1 << offer % _WORD)
        if word:
            self._words[high] = word
        else:
            del self._words[high]
            self._top &= ~(1 << high)


def _sweep(heap: _Heap[G], offer: int) -> None:
    """Keep each live entry once. Its cost is spread over the pushes that doubled the heap."""
    heap[:] = {entry[2]: entry for entry in heap if entry[3].offer == offer}.values()
    heapify(heap)
    heap.limit = 2 * len(heap) + _SLACK
