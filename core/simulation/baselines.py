"""What policies are compared with and nobody would run: the first GPU that fits, or any.

Both look at every GPU for every ask. Several GPUs of one node are placed as best fit does it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping

from core.buckets import Entry, Finder
from core.ledger_state import GpuState
from core.policies import Policy
from core.simulation.arrivals import Dice
from ports.workloads import Ask


class Scan(Finder[GpuState]):
    """dice: None for the first by node and index."""

    def __init__(self, exclusive: bool, dice: Dice | None) -> None:
        self._exclusive, self._dice = exclusive, dice
        self._entries: list[Entry] = []
        self._known: set[int] = set()

    def put(self, gpu: GpuState, was: int) -> None:
        if gpu.entry[2] not in self._known:
            self._known.add(gpu.entry[2])
            insort(self._entries, gpu.entry)

    def first(self, need: int) -> GpuState | None:
        if self._dice is None:
            return next((each[3] for each in self._entries if self._fits(each[3], need)), None)
        fits = [each[3] for each in self._entries if self._fits(each[3], need)]
        return fits[self._dice.randrange(len(fits))] if fits else None

    def greatest(self) -> int:
        return max((each[3].offer for each in self._entries if self._fits(each[3], 1)), default=0)

    def moved(self, gpu: GpuState) -> None:
        """It looks at all of them anyway."""

    def gone(self, gpu: GpuState) -> None:
        """Likewise."""

    def _fits(self, gpu: GpuState, need: int) -> bool:
        return gpu.offer >= need and (gpu.offer == gpu.total or not self._exclusive)


class Baseline:
    """A `core.policies.Policy` that learns nothing. dice: None for first fit."""

    ready = True

    def __init__(self, dice: Dice | None = None) -> None:
        self._dice = dice

    def finder(self, exclusive: bool) -> Finder[GpuState]:
        return Scan(exclusive, self._dice)

    def fleet(self, mib_by_size: Mapping[int, int]) -> None: ...

    def heard(self, ask: Ask) -> None: ...

    def booked(self, mib: int) -> None: ...

    def freed(self, mib: int) -> None: ...

    def twin(self) -> Policy:
        return Baseline(self._dice)
