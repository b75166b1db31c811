"""Which size of GPU is opened for parts: the one of which most is left, counted without what whole GPUs are wanted of.

A part of a GPU fits on any size, and wastes none of it; a whole GPU that has to be taken of a larger size than was asked for
wastes the difference, and one of the largest size has nowhere else to go. So every size has a *quota* of GPUs for parts: what
there is, less what those who want whole ones are expected to hold. Best fit opens the smallest size first and residual value
the largest, and each runs out of it.

- While the fleet has room for all (`Pressure.strained` is false) there is nothing to share out: the tightest GPU, as best fit.
- Where nothing ever ends, one in use is taken if the residual value rises no more on it than on the one to be opened.
- Else, while little is free on GPUs in use, the least rise of residual value anywhere. Once more than three
  hundredths of all VRAM are free on them, the tightest of them: what parts don't need is not to be kept from whole asks.
  Where hardly anybody asks for whole ones, there is nobody to keep it for.
- If GPUs are idle again after the fleet was full, whole ones of those sizes are not what is missing: the tightest, as best fit, so that
  parts let go of the larger ones that are.
"""

from __future__ import annotations

from bisect import bisect_left

from core.ledger_state import GpuState
from core.pressure import Pressure
from core.residual import Residuals
from core.shelves import Shelves

LOOSE = 0.03  # of the VRAM: free on GPUs in use for parts
EVEN = 3.0  # mean asks of rise: what a whole quota in use counts for
ENDLESS = 0.3  # the same where nothing ends: a sliver left is left for good, and a larger GPU is wasted only once
AHEAD = 10  # asks looked ahead once something has ended: a GPU's parts end before many more have come

FULL, SPARE = 0.015, 0.03  # of the VRAM, idle: once it has been down to the first, more than the second is what nobody wants whole

_IDLE, _WHOLE = -1, -2  # not in use for parts: idle, or taken whole


class Parts(Shelves):
    """A part of a GPU."""

    __slots__ = ("_pressure", "_rooms", "_used", "free", "full", "idle", "total")

    def __init__(self, residuals: Residuals, pressure: Pressure) -> None:
        super().__init__(residuals)
        self._pressure = pressure
        self._rooms: dict[int, int] = {}  # by the number of the GPU: MiB free beside its parts
        self._used: dict[int, int] = {}  # by MiB per GPU: how many are in use for parts
        self.free = self.idle = self.total = 0  # MiB: free on those, of idle GPUs, and of all
        self.full = False  # once hardly anything was idle

    def put(self, gpu: GpuState, was: int) -> None:
        super().put(gpu, was)
        known = self._rooms.get(gpu.entry[2])
        if known is None:
            known, self.total = _WHOLE, self.total + gpu.total
        if gpu.offer == gpu.total:
            self._note(gpu, known, _IDLE)
        else:
            self._note(gpu, known, gpu.offer if gpu.offer > 0 or known >= 0 else _WHOLE)

    def gone(self, gpu: GpuState) -> None:
        known = self._rooms.get(gpu.entry[2])
        if known is not None:
            self._note(gpu, known, _WHOLE)
            self.total -= gpu.total
            del self._rooms[gpu.entry[2]]

    def first(self, need: int) -> GpuState | None:
        pressure = self._pressure
        self.full = self.full or self.idle <= FULL * self.total
        if not pressure.strained:
            return self.tightest(need)
        if pressure.endless:
            return self.least(need, self._opened(need, ENDLESS)) or self.tightest(need)
        if not pressure.sure:
            return self.in_use.first(need) or self._opened(need)
        if self.full and self.idle > SPARE * self.total:
            return self.tightest(need)
        if pressure.parted or self.free <= LOOSE * self.total:
            return self.least(need, self.least_idle(need)) or self.tightest(need)
        return self.in_use.first(need) or self._opened(need)

    def _opened(self, need: int, even: float = EVEN) -> GpuState | None:
        """The idle one to be opened. even: mean asks of rise that a whole quota in use counts for."""
        best, chosen, mean = 0.0, None, self._residuals.mean or 1.0
        for size in self.sizes[bisect_left(self.sizes, need) :]:
            cost = even * (self._used.get(size, 0) + 1) / self._pressure.quota(size) + self.rise(need, size) / mean
            if chosen is None or cost < best:
                idle = self.idles.of_size(size)
                if idle is not None:
                    best, chosen = cost, idle
        return chosen

    def _note(self, gpu: GpuState, known: int, room: int) -> None:
        self._rooms[gpu.entry[2]] = room
        self.free += max(0, room) - max(0, known)
        self.idle += gpu.total * ((room == _IDLE) - (known == _IDLE))
        if (room < 0) != (known < 0):
            self._used[gpu.total] = self._used.get(gpu.total, 0) + (-1 if room < 0 else 1)
