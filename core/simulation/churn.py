"""A fleet in steady churn: Poisson arrivals, exponential lifetimes, and what finds no room is turned away.

Time is counted in mean lifetimes. The offered load is what would be in use on average if nothing were refused. Three lifetimes
fill the fleet and five are measured: longer ones give all policies somewhat more of both figures, as free nodes get rarer.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import log

from attrs import frozen

from core.packing import NoRoom
from core.simulation.arrivals import Arrivals, Dice, wanted
from core.simulation.placing import Placer
from ports.workloads import RunId

WARM, MEASURED = 3.0, 5.0  # mean lifetimes


@frozen
class Churned:
    """allocated: VRAM in use over the fleet's, averaged over time. refused: of the VRAM asked for, the share without room."""

    allocated: float
    refused: float
    arrivals: int


class _Meter:
    """Adds up from `start` on."""

    def __init__(self, start: float) -> None:
        self._start, self._last = start, start
        self.used, self.area, self.asked, self.refused, self.arrivals = 0, 0.0, 0, 0, 0

    def upto(self, now: float) -> None:
        if now > self._last:
            self.area += self.used * (now - self._last)
            self._last = now

    def arrived(self, now: float, mib: int, placed: bool) -> None:
        self.upto(now)
        if now >= self._start:
            self.arrivals += 1
            self.asked += mib
            self.refused += 0 if placed else mib
        self.used += mib if placed else 0

    def ended(self, now: float, mib: int) -> None:
        self.upto(now)
        self.used -= mib


def churn(placer: Placer, arrivals: Arrivals, load: float, dice: Dice, warm: float = WARM, measured: float = MEASURED) -> Churned:
    """From an empty fleet: `warm` mean lifetimes unmeasured, then `measured`."""
    rate = load * arrivals.fleet / arrivals.mean()  # arrivals per mean lifetime
    meter, now, end, count = _Meter(warm), 0.0, warm + measured, 0
    live: list[tuple[float, int, RunId, int]] = []
    while True:
        now -= log(1.0 - dice.random()) / rate
        while live and live[0][0] <= min(now, end):
            over, _, run, mib = heappop(live)
            meter.ended(over, mib)
            placer.release(run)
        if now >= end:
            break
        count += 1
        ask, run = arrivals.any(dice), RunId(f"job-{count}", 1)
        placed = not isinstance(placer.place(run, ask), NoRoom)
        meter.arrived(now, wanted(ask), placed)
        if placed:
            heappush(live, (now - log(1.0 - dice.random()), count, run, wanted(ask)))
    meter.upto(end)
    return Churned(meter.area / (measured * arrivals.fleet), meter.refused / max(1, meter.asked), meter.arrivals)
