"""What a Pending job waits for, in words: made when somebody looks, from the fleet and the queue as they are then.

The scheduler looks at the first job of each line only, and what it has written may be old; it is shown where nothing here
explains the wait.
"""

from __future__ import annotations

from core.exposure import WAITS
from core.inventory import Fleet
from core.owners import PROVIDERS_POOL, Pool, is_provider
from core.queue import Shape, shape_of
from core.shortage import NO_NODE, shortage
from ports.workloads import Job, Phase

TURN = "Waits for its turn"
NEEDS_A_NODE = "No node that is here now could hold it; it waits for one."


def waiting(job: Job, fleet: Fleet, ahead: int) -> str:
    """ahead: earlier jobs that compete with it. "" if it does not wait, or for nothing that is known."""
    if job.status.phase is not Phase.PENDING:
        return ""
    ask, pools, said = job.spec.ask, shape_of(job).pools, job.status.waiting
    if said.startswith(WAITS):
        return said
    if not any(node.gpus for node in fleet.nodes):
        return NO_NODE
    if fleet.capacity().ledger.largest(ask, pools) < ask.mib:
        return NEEDS_A_NODE
    if ahead and (not said or said.startswith(TURN)):  # else it was offered its turn: those before it wait for other nodes
        return f"{TURN}: {ahead} earlier job{'s wait' if ahead > 1 else ' waits'} for the same GPUs."
    return fleet.remembered((ask, pools), lambda: shortage(fleet, ask, pools)) or said


def compete(one: Shape, other: Shape) -> bool:
    """Whether there may be GPUs that both could use."""
    kinds = ((one.model, other.model), (one.vendor, other.vendor))
    return all(mine is None or theirs in (None, mine) for mine, theirs in kinds) and any(
        _overlap(mine, theirs) for mine in one.pools for theirs in other.pools
    )


def _overlap(one: Pool, other: Pool) -> bool:
    return one == other or (PROVIDERS_POOL in (one, other) and is_provider(one.owners if other == PROVIDERS_POOL else other.owners))
