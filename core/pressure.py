"""How much is asked of the fleet, and which GPUs are too scarce to be given to asks that others could serve.

The *offered load* is what would be in use, over what there is, if nothing were refused. It is told without a clock: what
was asked for lately, times how long a MiB stays in use, counted in asks. Where nothing ever ends it is without bound.

A size of GPU is scarce if all that smaller GPUs can serve would fit on smaller GPUs: then it costs to put such an ask
on one of that size, since those that need it find none later. If it would not fit there, somebody has to go up, and the cost
only breaks ties. What lies between is a ramp.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

MEMORY = 2.0  # asks are remembered for about so many fleets of VRAM asked for
ENOUGH = 0.05  # of a fleet's VRAM has to be asked for before the load can be told
_TOO_MUCH = 1e6
MOST = 1.15  # a greater load changes nothing
COSTS = ((1.03, 1.0), (1.08, 0.175), (1.2, 0.175), (1.3, 0.0))  # what smaller GPUs would hold, over what they have: the cost


class Pressure:
    """All amounts in MiB; `used`: booked now.

    What is older counts less: rather than let all sums fade, what is newer is added at a `_rate` that grows.
    """

    __slots__ = ("_asked", "_demand", "_fleet", "_freed", "_in_use", "_rate", "_sizes", "_span", "_supply", "used")

    def __init__(self) -> None:
        self._asked = self._freed = self._in_use = 0.0
        self._rate, self._span = 1.0, 1.0
        self._sizes: list[int] = []
        self._supply: list[int] = []
        self._demand: list[float] = []
        self._fleet, self.used = 0, 0

    def twin(self) -> Pressure:
        """What it has heard, with nothing in use."""
        made = Pressure()
        made._asked, made._freed, made._in_use = self._asked, self._freed, self._in_use
        made._rate, made._span, made._fleet = self._rate, self._span, self._fleet
        made._sizes, made._supply, made._demand = self._sizes.copy(), self._supply.copy(), self._demand.copy()
        return made

    def supply(self, mib_by_size: Mapping[int, int]) -> None:
        """The fleet's VRAM, by MiB per GPU."""
        known = dict(zip(self._sizes, self._demand, strict=True))
        self._sizes = sorted(mib_by_size)
        self._supply = [mib_by_size[size] for size in self._sizes]
        self._demand = [known.get(size, 0.0) for size in self._sizes]
        self._fleet = sum(self._supply)
        self._span = max(1.0, MEMORY * self._fleet)

    def heard(self, need: int, mib: int) -> None:
        """An ask has come: `need` per GPU, `mib` in all."""
        if not self._fleet:
            return
        self._rate *= 1.0 + mib / self._span
        weighs = mib * self._rate
        self._asked += weighs
        self._in_use += self.used * weighs
        self._demand[min(bisect_left(self._sizes, need), len(self._sizes) - 1)] += weighs
        if self._rate > _TOO_MUCH:
            self._normalise()

    def freed(self, mib: int) -> None:
        self.used -= mib
        self._freed += mib * self._rate

    def _normalise(self) -> None:
        self._asked, self._in_use, self._freed = self._asked / self._rate, self._in_use / self._rate, self._freed / self._rate
        self._demand = [each / self._rate for each in self._demand]
        self._rate = 1.0

    @property
    def load(self) -> float:
        """Offered; 0 while it can't be told."""
        if not self._fleet or self._asked < ENOUGH * self._fleet * self._rate:
            return 0.0
        if not self._freed:
            return MOST
        return min(MOST, self._in_use / (self._freed * self._fleet))

    def costs(self) -> dict[int, float]:
        """By MiB per GPU: what it costs, from 0 to 1, to serve on it what a smaller one could have served."""
        load, asked, found = self.load, sum(self._demand), {}
        fits, below, cost = 0.0, 0, 0.0
        for size, supply, demand in zip(self._sizes, self._supply, self._demand, strict=True):
            if below and asked:
                cost = max(cost, _cost(load * (fits / asked) / (below / self._fleet)))
            found[size] = cost
            fits, below = fits + demand, below + supply
        return found


def _cost(filled: float) -> float:
    """On the ramp."""
    last, high = COSTS[0]
    for upto, cost in COSTS:
        if filled <= upto:
            return cost if upto == last else high + (cost - high) * (filled - last) / (upto - last)
        last, high = upto, cost
    return high
