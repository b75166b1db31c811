"""How much is asked of the fleet, and how much of each size of GPU is wanted whole.

The *offered load* is what would be in use, over what there is, if nothing were refused. It is told without a clock: what
was asked for lately, times how long a MiB stays in use, counted in asks. Where nothing ever ends it is without bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

MEMORY = 2.0  # asks are remembered for about so many fleets of VRAM asked for
ENOUGH = 0.05  # of a fleet's VRAM has to be asked for before the load can be told
_TOO_MUCH = 1e6
MOST = 1.15  # a greater load changes nothing
CALM, STRAINED = 0.99, 1.04  # offered load: below it there is room, above it there is none; between them what was holds
SOON = 0.4
SURE = 0.8  # fleets of VRAM, as far as remembered: before so much was asked for, a fleet that fills looks fuller than it will be
LEAST = 0.02  # of a size: the smallest quota
RARE = 0.1  # of the MiB asked for: less than that for whole GPUs is next to nothing


class Pressure:
    """All amounts in MiB; `used`: booked now. strained: more is wanted than there is. sure: so much was asked for that the load is no
    guess. parted: hardly anything but parts of GPUs is asked for.

    What is older counts less: rather than let all sums fade, what is newer is added at a `_rate` that grows.
    """

    __slots__ = (
        "_asked",
        "_fleet",
        "_freed",
        "_in_use",
        "_quotas",
        "_rate",
        "_sizes",
        "_span",
        "_supply",
        "_whole",
        "parted",
        "strained",
        "sure",
        "used",
    )

    def __init__(self) -> None:
        self._asked = self._freed = self._in_use = 0.0
        self._rate, self._span = 1.0, 1.0
        self._sizes: list[int] = []
        self._supply: list[int] = []
        self._whole: list[float] = []
        self._quotas: dict[int, float] | None = None  # None: to be told anew
        self._fleet, self.used, self.strained, self.sure, self.parted = 0, 0, False, False, False

    def twin(self) -> Pressure:
        """What it has heard, with nothing in use."""
        made = Pressure()
        made._asked, made._freed, made._in_use = self._asked, self._freed, self._in_use
        made._rate, made._span, made._fleet = self._rate, self._span, self._fleet
        made._sizes, made._supply, made._whole = self._sizes.copy(), self._supply.copy(), self._whole.copy()
        made.strained, made.sure, made.parted = self.strained, self.sure, self.parted
        return made

    def supply(self, mib_by_size: Mapping[int, int]) -> None:
        """The fleet's VRAM, by MiB per GPU."""
        known = dict(zip(self._sizes, self._whole, strict=True))
        self._sizes = sorted(mib_by_size)
        self._supply = [mib_by_size[size] for size in self._sizes]
        self._quotas = None
        self._whole = [known.get(size, 0.0) for size in self._sizes]
        self._fleet = sum(self._supply)
        self._span = max(1.0, MEMORY * self._fleet)

    def heard(self, need: int, mib: int, whole: bool) -> None:
        """An ask has come: `need` per GPU, `mib` in all."""
        if not self._fleet:
            return
        self._rate *= 1.0 + mib / self._span
        weighs = mib * self._rate
        self._asked += weighs
        self._in_use += self.used * weighs
        if whole:
            self._whole[min(bisect_left(self._sizes, need), len(self._sizes) - 1)] += weighs
        if self._rate > _TOO_MUCH:
            self._normalise()

    def freed(self, mib: int) -> None:
        self.used -= mib
        self._freed += mib * self._rate

    def _normalise(self) -> None:
        self._asked, self._in_use, self._freed = self._asked / self._rate, self._in_use / self._rate, self._freed / self._rate
        self._whole = [each / self._rate for each in self._whole]
        self._rate = 1.0

    @property
    def load(self) -> float:
        """Offered; 0 while it can't be told."""
        if not self._fleet or self._asked < ENOUGH * self._fleet * self._rate:
            return 0.0
        if not self._freed:
            return MOST
        return min(MOST, self._in_use / (self._freed * self._fleet))

    def quota(self, size: int) -> float:
        """How many GPUs of that size are for parts: those that whole asks do not want. Never quite none."""
        if self._quotas is None:
            asked, spread = self._asked or 1.0, zip(self._sizes, self._supply, self._whole, strict=True)
            self._quotas = {size: max(LEAST * have, have - whole / asked * self._fleet) / size for size, have, whole in spread}
        return self._quotas.get(size) or 1.0

    def weigh(self) -> None:
        """Look at the load again, and at the quotas when they are asked for."""
        load, self._quotas = self.load, None
        self.sure = self._asked >= (SURE if load < MOST else SOON) * self._fleet * self._rate
        self.parted = sum(self._whole) < RARE * self._asked
        if load < CALM:
            self.strained = False
        elif load > STRAINED:
            self.strained = True

    @property
    def endless(self) -> bool:
        """Whether nothing has ended yet."""
        return not self._freed
