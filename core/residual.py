"""What is worth keeping free: the residual value of a GPU, learned from the asks that came.

The *residual value* of a GPU with r MiB free is what is expected to be left unusable of it after the next few asks for a part
of a GPU, each taken if it still fits. An ask of a MiB makes it rise (or fall) from that of r to that of r - a: the *rise*.
The GPU on which it rises least is the one that the ask completes best.

It is a dynamic program over r in at most 1,024 levels and the histogram of the last asks, redone when the history has
grown fourfold and then once in a while, so that an ask pays microseconds for it. For each amount that is asked for, levels of like
rise are gathered in a bitmask: the best level that is there is found by a few ANDs, however many GPUs there are.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

DEPTH = 13  # asks looked ahead: fewer leave slivers that nobody fits, many more count on luck
HISTORY = 4_096  # asks for a part of a GPU that are remembered
FIRST, SELDOM = 64, 8_192  # asks between two refreshes: at first, and at most
LEVELS = 1_024
SIZES = 40  # of asks, in the dynamic program; rarer ones count as the nearest of these
STEPS = 256  # of rise in a mean ask: what is closer than that is a tie, and the tightest wins

Groups = Sequence[tuple[float, int]]  # ascending: rise, and the levels on which it is that, as bits


class Residuals:
    """quantum: MiB per level. mean: MiB that an ask is for. Both change at a refresh only. depth: asks looked ahead."""

    __slots__ = ("_asks", "_counts", "_due", "_groups", "_since", "_value", "depth", "mean", "quantum")

    def __init__(self) -> None:
        self._asks: deque[int] = deque()
        self._counts: Counter[int] = Counter()
        self._due, self._since = FIRST, 0
        self._groups: dict[int, Groups] = {}
        self._value: list[float] = [0.0]
        self.quantum, self.mean, self.depth = 1, 0.0, DEPTH

    def twin(self) -> Residuals:
        made = Residuals()
        made._asks, made._counts = self._asks.copy(), self._counts.copy()
        made._due, made._since = self._due, self._since
        made._groups, made._value = self._groups.copy(), self._value  # values are replaced as a whole
        made.quantum, made.mean, made.depth = self.quantum, self.mean, self.depth
        return made

    def size(self, largest: int) -> None:
        """The largest GPU has that many MiB."""
        quantum = largest // LEVELS + 1
        if (quantum, largest // quantum + 1) != (self.quantum, len(self._value)):
            self.quantum = quantum
            self._value = [0.0] * (largest // quantum + 1)
            self._refresh()

    def look(self, depth: int) -> None:
        """That many asks ahead, from now on."""
        if depth != self.depth:
            self.depth = depth
            self._refresh()

    def heard(self, mib: int) -> None:
        """An ask for a part of a GPU has come."""
        self._asks.append(mib)
        self._counts[mib] += 1
        if len(self._asks) > HISTORY:
            gone = self._asks.popleft()
            self._counts[gone] -= 1
            if not self._counts[gone]:
                del self._counts[gone]
        self._since += 1
        if self._since >= self._due:
            self._due, self._since = min(SELDOM, 4 * self._due), 0
            self._refresh()

    @property
    def heard_of(self) -> int:
        """Asks that are remembered."""
        return len(self._asks)

    def rise(self, level: int, left: int) -> float:
        """From one level down to another, in MiB; close ones alike, as in `groups`. Of GPUs that have left the fleet, as of the largest."""
        step, highest = self.mean / STEPS or 1.0, len(self._value) - 1
        return round((self._value[min(left, highest)] - self._value[min(level, highest)]) / step) * step

    def groups(self, need: int) -> Groups:
        """For an ask of `need` levels."""
        found = self._groups.get(need)
        if found is None:
            found = self._groups[need] = self._gathered(need)
        return found

    def _gathered(self, need: int) -> Groups:
        value, step = self._value, self.mean / STEPS or 1.0
        masks: dict[int, int] = {}
        for left, (after, before) in enumerate(zip(value, value[need:], strict=False)):
            key = round((after - before) / step)
            masks[key] = masks.get(key, 0) | 1 << left
        return [(key * step, masks[key] << need) for key in sorted(masks)]

    def _refresh(self) -> None:
        self._groups.clear()
        if self._asks:
            self.mean = sum(mib * times for mib, times in self._counts.items()) / len(self._asks)
            self._value = _residuals(self._sizes(), len(self._value), self.quantum, self.depth)

    def _sizes(self) -> list[tuple[int, float]]:
        """Levels that asks are for, with how likely each is."""
        levels: Counter[int] = Counter()
        for mib, times in self._counts.items():
            levels[max(1, (2 * mib + self.quantum) // (2 * self.quantum))] += times
        kept = sorted(levels, key=lambda size: (-levels[size], size))[:SIZES]
        merged: Counter[int] = Counter()
        for size, times in levels.items():
            merged[size if size in kept else min(kept, key=lambda each: (abs(each - size), each))] += times
        return [(size, merged[size] / len(self._asks)) for size in sorted(merged)]


def _residuals(sizes: Sequence[tuple[int, float]], levels: int, quantum: int, depth: int) -> list[float]:
    """The residual value of each level, in MiB."""
    refused, stays = 1.0, [1.0] * levels
    for at, (size, chance) in enumerate(sizes):
        refused -= chance
        upto = sizes[at + 1][0] if at + 1 < len(sizes) else levels
        stays[size:upto] = [max(0.0, refused)] * len(stays[size:upto])
    value = [float(quantum * level) for level in range(levels)]
    for _ in range(depth):
        after = [stay * before for stay, before in zip(stays, value, strict=True)]
        for size, chance in sizes:
            after[size:] = [sum_ + chance * left for sum_, left in zip(after[size:], value, strict=False)]
        value = after
    return value
