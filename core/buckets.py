"""GPUs of one kind by their free MiB: the tightest that is wide enough, without looking at the others.

A bucket per amount of free MiB, and a bitmask of buckets that may have something in them, in words of 256 bits under
a word of words: the first bit at or above what is needed is the bucket. In a bucket, a heap by node name and GPU
index. A GPU that moves is only pushed to where it is now; where it was, its entry is stale, and goes when it comes
to the top. So a move costs O(log n) of its bucket, and every entry is popped once.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Protocol, TypeVar

_BITS = 8  # of the amount, within a word
_LOW = (1 << _BITS) - 1
_SLACK = 32  # a heap up to this length is not worth sweeping


class Offered(Protocol):
    """offer: MiB that it offers now; an entry under another amount is stale. 0 or less: nothing."""

    offer: int


G = TypeVar("G", bound=Offered)
# node name, GPU index, a number that makes ties impossible, the GPU
Entry = tuple[str, int, int, G]


class Finder(Protocol[G]):
    """What an index asks for one GPU. Best fit's is `Buckets`; a policy brings its own."""

    def put(self, entry: Entry[G], offer: int) -> None:
        """The GPU of `entry` offers that much from now on (more than 0)."""
        ...

    def first(self, need: int) -> G | None:
        """The GPU to take among those that offer at least `need`."""
        ...

    def greatest(self) -> int:
        """The greatest amount that is offered, 0 if nothing is."""
        ...

    def moved(self, gpu: G) -> None:
        """It was idle, and is so no more."""
        ...


class Buckets(Finder[G]):
    """What is offered, by amount."""

    __slots__ = ("_heaps", "_limits", "_top", "_words")

    def __init__(self) -> None:
        self._heaps: dict[int, list[Entry[G]]] = {}
        self._limits: dict[int, int] = {}  # length at which a large heap is swept again
        self._words: dict[int, int] = {}
        self._top = 0

    def put(self, entry: Entry[G], offer: int) -> None:
        """The GPU of `entry` offers that much from now on (more than 0)."""
        heap = self._heaps.get(offer)
        if heap is not None:
            if heap[0][3].offer != offer:
                heapreplace(heap, entry)
                return
            heappush(heap, entry)
            if len(heap) > _SLACK:
                self._sweep(heap, offer)
            return
        self._heaps[offer] = [entry]
        high = offer >> _BITS
        if high in self._words:
            self._words[high] |= 1 << (offer & _LOW)
        else:
            self._words[high] = 1 << (offer & _LOW)
            self._top |= 1 << high

    def first(self, need: int) -> G | None:
        """The GPU with the least offer of at least `need`; among equals the first by name and index."""
        words = self._words
        while True:
            high = need >> _BITS
            word = words[high] >> (need & _LOW) if high in words else 0
            if not word:
                tops = self._top >> high + 1
                if not tops:
                    return None
                high += (tops & -tops).bit_length()
                need = high << _BITS
                word = words[high]
            need += (word & -word).bit_length() - 1
            heap = self._heaps[need]
            while heap:
                gpu = heap[0][3]
                if gpu.offer == need:
                    return gpu
                heappop(heap)
            self._drop(need)

    def greatest(self) -> int:
        """The greatest amount that is offered, 0 if nothing is."""
        while self._top:
            high = self._top.bit_length() - 1
            offer = (high << _BITS) + self._words[high].bit_length() - 1
            heap = self._heaps[offer]
            while heap:
                if heap[0][3].offer == offer:
                    return offer
                heappop(heap)
            self._drop(offer)
        return 0

    def moved(self, gpu: G) -> None:
        """An idle GPU is no other than one that offers as much."""

    def _drop(self, offer: int) -> None:
        """Forget an empty bucket."""
        del self._heaps[offer]
        self._limits.pop(offer, None)
        high = offer >> _BITS
        self._words[high] ^= 1 << (offer & _LOW)
        if not self._words[high]:
            del self._words[high]
            self._top ^= 1 << high

    def _sweep(self, heap: list[Entry[G]], offer: int) -> None:
        """Keep each live entry once, when the heap has doubled: so its cost is spread over the pushes."""
        if len(heap) > self._limits.get(offer, _SLACK):
            heap[:] = {entry[2]: entry for entry in heap if entry[3].offer == offer}.values()
            heapify(heap)
            self._limits[offer] = 2 * len(heap) + _SLACK
