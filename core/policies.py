"""Which GPU an ask for one gets, where `core.packing.best_fit` isn't to decide: policies, by name.

A policy chooses among GPUs that `core.packing` calls eligible, and never says no while there is one. It is told of every ask
once, of what is booked and given back, and of the fleet; it learns from that alone, so that the same history gives the same
choices. Until it has heard enough, and for several GPUs of one node, best fit decides.

- `residual_value`: the GPU on which the residual value rises least (`core.residual`). Packs tightest when more is asked for
  than there is; below that it spends large GPUs on small asks.
- `balance`: best fit while the fleet has room for all that is asked for. When it has not, each size of GPU is shared out between those who
  want whole ones and those who want parts (`core.balance`). `docs/decisions/0006-placement-policy.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from core.balance import AHEAD, Parts
from core.buckets import Finder
from core.ledger_state import GpuState
from core.pressure import Pressure
from core.residual import Residuals
from core.shelves import Idles, Shelves
from ports.workloads import Ask

READY = 64  # asks for a part of a GPU
WEIGHED = 64  # asks between two looks at the pressure


class PlacementPolicy(StrEnum):
    BEST_FIT = "best_fit"
    RESIDUAL_VALUE = "residual_value"
    BALANCE = "balance"


class Policy(Protocol):
    """Of one ledger. All amounts in MiB."""

    def finder(self, exclusive: bool) -> Finder[GpuState]:
        """Of one GPU: for whole idle ones or for parts."""
        ...

    def fleet(self, mib_by_size: Mapping[int, int]) -> None:
        """The VRAM that there is, by MiB per GPU."""
        ...

    def heard(self, ask: Ask) -> None:
        """A run has asked; how often it does is no matter."""
        ...

    def booked(self, mib: int) -> None: ...

    def freed(self, mib: int) -> None: ...

    @property
    def ready(self) -> bool:
        """Whether it has heard enough to decide. Once it has, it stays so."""
        ...

    def twin(self) -> Policy:
        """One that knows the same, for another ledger, in which nothing is booked yet."""
        ...


class ResidualValue:
    """residuals: what its finders rank by."""

    def __init__(self) -> None:
        self.residuals = Residuals()

    def finder(self, exclusive: bool) -> Finder[GpuState]:
        return Idles() if exclusive else Shelves(self.residuals)

    def fleet(self, mib_by_size: Mapping[int, int]) -> None:
        self.residuals.size(max(mib_by_size, default=0))

    def heard(self, ask: Ask) -> None:
        if not ask.exclusive:
            self.residuals.heard(ask.mib.n)

    def booked(self, mib: int) -> None:
        """No matter: it looks at GPUs one by one."""

    def freed(self, mib: int) -> None:
        """Likewise."""

    @property
    def ready(self) -> bool:
        return self.residuals.heard_of >= READY

    def twin(self) -> Policy:
        made = ResidualValue()
        made.residuals = self.residuals.twin()
        return made


class Balance(ResidualValue):
    """pressure: what it has seen of the load."""

    def __init__(self) -> None:
        super().__init__()
        self.pressure = Pressure()
        self._due = 0

    def finder(self, exclusive: bool) -> Finder[GpuState]:
        return Idles() if exclusive else Parts(self.residuals, self.pressure)

    def fleet(self, mib_by_size: Mapping[int, int]) -> None:
        super().fleet(mib_by_size)
        self.pressure.supply(mib_by_size)
        self._due = 0

    def heard(self, ask: Ask) -> None:
        super().heard(ask)
        self.pressure.heard(ask.mib.n, ask.mib.n * ask.gpus * ask.workers, ask.exclusive)
        self._due -= 1
        if self._due < 0:
            self._due = WEIGHED
            self.pressure.weigh()
            if not self.pressure.endless:
                self.residuals.look(AHEAD)

    def booked(self, mib: int) -> None:
        self.pressure.used += mib

    def freed(self, mib: int) -> None:
        self.pressure.freed(mib)

    def twin(self) -> Policy:
        made = Balance()
        made.residuals, made.pressure, made._due = self.residuals.twin(), self.pressure.twin(), self._due
        return made


_POLICIES: dict[PlacementPolicy, Callable[[], Policy | None]] = {
    PlacementPolicy.BEST_FIT: lambda: None,
    PlacementPolicy.RESIDUAL_VALUE: ResidualValue,
    PlacementPolicy.BALANCE: Balance,
}


def policy(name: PlacementPolicy) -> Policy | None:
    """A new one for a new ledger; None for best fit, which the ledger has built in."""
    return _POLICIES[name]()
