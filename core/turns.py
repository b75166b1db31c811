"""A job's turn: the booking that it may have without taking what an earlier job waits for.

The scheduler and the simulation both ask here, so that a simulated queue moves as the real one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.fleet import GpuClass
from core.ledger import NoRoom, VramLedger
from core.owners import Pool
from core.queue import Closed, narrowed
from ports.workloads import Ask, Placement, RunId


def reserve_in_turn(
    ledger: VramLedger, run: RunId, ask: Ask, pools: Sequence[Pool], closed: tuple[Closed, ...], classes: Callable[[], tuple[GpuClass, ...]]
) -> Placement | None:
    """Book it in the first of `pools` that has room outside of what is `closed`. None: not now, and nothing is booked.

    classes: every kind of GPU that there is; asked for only if something is closed.
    """
    for pool in pools:
        for narrow in narrowed(ask, pool, closed, classes()) if closed else (ask,):
            found = ledger.reserve(run, narrow, (pool,))
            if not isinstance(found, NoRoom):
                return found
    return None
