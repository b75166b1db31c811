"""Who decides where an ask of a simulation goes: the ledger that production uses, or something to compare it with."""

from __future__ import annotations

from typing import Protocol

from core.ledger import VramLedger
from core.owners import ORG_POOL, Pool
from core.packing import NoRoom
from ports.workloads import Ask, Placement, RunId

EVERYWHERE = (ORG_POOL,)


class Placer(Protocol):
    def place(self, run: RunId, ask: Ask) -> Placement | NoRoom:
        """Book it, or say that there is no room."""
        ...

    def release(self, run: RunId) -> None: ...


class LedgerPlacer:
    """As the scheduler does it."""

    def __init__(self, ledger: VramLedger, pools: tuple[Pool, ...] = EVERYWHERE) -> None:
        self.ledger, self._pools = ledger, pools

    def place(self, run: RunId, ask: Ask) -> Placement | NoRoom:
        return self.ledger.reserve(run, ask, self._pools)

    def release(self, run: RunId) -> None:
        self.ledger.release(run)
