"""GPUs of one kind by their free MiB: the tightest that is wide enough, without looking at the others.

A bucket per amount of free MiB, and a bitmask of buckets that may have something in them, in words of 256 bits under
a word of words: the first bit at or above what is needed is the bucket. Most amounts have one GPU, which is the bucket
then; several are a heap by node name and GPU index. A GPU that moves leaves a bucket of its own at once. In a heap its entry
becomes stale, and goes when it comes to the top. So a move costs O(log n) of its bucket, and every entry is popped once.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Protocol, TypeVar

_BITS = 8  # of the amount, within a word
_LOW = (1 << _BITS) - 1
_SLACK = 32  # a heap up to this length is not worth sweeping

Entry = tuple[str, int, int, Any]  # node name, GPU index, a number that makes ties impossible, the GPU


class Offered(Protocol):
    """offer: MiB that it offers now; where it is known under another amount is stale. 0 or less: nothing. entry: of it."""

    offer: int

    @property
    def entry(self) -> Entry: ...


G = TypeVar("G", bound=Offered)


class Finder(Protocol[G]):
    """What an index asks for one GPU. Best fit's is `Buckets`; a policy brings its own."""

    def put(self, gpu: G, was: int) -> None:
        """It offers `gpu.offer` from now on, 0 for nothing, and offered `was` before (less than 0: unknown)."""
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

    def gone(self, gpu: G) -> None:
        """It will not be heard of again; what it offers is less than 0 from now on."""
        ...


class Buckets(Finder[G]):
    """What is offered, by amount."""

    __slots__ = ("_at", "_limits", "_top", "_words")

    def __init__(self) -> None:
        self._at: dict[int, G | list[Entry]] = {}
        self._limits: dict[int, int] = {}  # length at which a large heap is swept again
        self._words: dict[int, int] = {}
        self._top = 0

    def put(self, gpu: G, was: int) -> None:
        """It offers `gpu.offer` from now on, 0 for nothing, and offered `was` before (less than 0: unknown)."""
        at, offer = self._at, gpu.offer
        if at.get(was) is gpu and was != offer:
            self._drop(was)
        if not offer:
            return
        there = at.get(offer)
        if there is not None:
            self._join(there, gpu, offer)
            return
        at[offer] = gpu
        high = offer >> _BITS
        if high in self._words:
            self._words[high] |= 1 << (offer & _LOW)
        else:
            self._words[high] = 1 << (offer & _LOW)
            self._top |= 1 << high

    def _join(self, there: G | list[Entry], gpu: G, offer: int) -> None:
        """Into a bucket that has something in it already."""
        if not isinstance(there, list):
            if there is gpu or there.offer != offer:
                self._at[offer] = gpu
            else:
                self._at[offer] = sorted((there.entry, gpu.entry))
        elif there[0][3].offer != offer:
            heapreplace(there, gpu.entry)
        else:
            heappush(there, gpu.entry)
            if len(there) > _SLACK:
                self._sweep(there, offer)

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
            gpu = self._at[need]
            if isinstance(gpu, list):
                found = self._in_heap(gpu, need)
                if found is not None:
                    return found
            elif gpu.offer == need:
                return gpu
            self._drop(need)

    def greatest(self) -> int:
        """The greatest amount that is offered, 0 if nothing is."""
        while self._top:
            high = self._top.bit_length() - 1
            offer = (high << _BITS) + self._words[high].bit_length() - 1
            gpu = self._at[offer]
            if self._in_heap(gpu, offer) is not None if isinstance(gpu, list) else gpu.offer == offer:
                return offer
            self._drop(offer)
        return 0

    def moved(self, gpu: G) -> None:
        """An idle GPU is no other than one that offers as much."""

    def gone(self, gpu: G) -> None:
        """What is left of it is forgotten when it is come upon."""

    def _in_heap(self, heap: list[Entry], offer: int) -> G | None:
        """The first that is no stale one."""
        while heap:
            gpu: G = heap[0][3]
            if gpu.offer == offer:
                return gpu
            heappop(heap)
        return None

    def _drop(self, offer: int) -> None:
        """Forget an empty bucket."""
        del self._at[offer]
        if self._limits:
            self._limits.pop(offer, None)
        high = offer >> _BITS
        left = self._words[high] ^ 1 << (offer & _LOW)
        if left:
            self._words[high] = left
        else:
            del self._words[high]
            self._top ^= 1 << high

    def _sweep(self, heap: list[Entry], offer: int) -> None:
        """Keep each live entry once, when the heap has doubled: so its cost is spread over the pushes."""
        if len(heap) > self._limits.get(offer, _SLACK):
            heap[:] = {entry[2]: entry for entry in heap if entry[3].offer == offer}.values()
            heapify(heap)
            self._limits[offer] = 2 * len(heap) + _SLACK
