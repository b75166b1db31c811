"""What a provider's hardware does and earns."""

from __future__ import annotations

from attrs import frozen

from core.house import House
from core.inventory import Fleet, FleetNode
from core.owners import provider
from ports.credits import BEGINNING, END, PAYOUT, owner_account
from ports.months import Month, day_start
from ports.units import Credits, Instant
from ports.workloads import RunState


@frozen
class Earnings:
    """today, month: earned so far in this day and month of UTC. ever: since the beginning. paid_out: of it."""

    balance: Credits
    today: Credits
    month: Credits
    ever: Credits
    paid_out: Credits


@frozen
class OwnNode:
    """runs: that hold slots there."""

    node: FleetNode
    runs: int


def earnings(house: House, user: str) -> Earnings:
    """Of that user's hardware. Raises Unavailable."""
    account, now = owner_account(provider(user)), house.clock.now()

    def earned(since: Instant) -> Credits:
        kinds = house.credits.turnover(account, since, END)
        return sum((amount for kind, amount in kinds.items() if kind != PAYOUT), start=Credits(0))

    paid = house.credits.turnover(account, BEGINNING, END).get(PAYOUT, Credits(0))
    balance = house.credits.account(account).balance
    return Earnings(balance, earned(day_start(now)), earned(Month.of(now).begin), earned(BEGINNING), -paid)


def own_nodes(fleet: Fleet, user: str) -> tuple[OwnNode, ...]:
    """The nodes of that user, by name."""
    mine = [node for node in fleet.nodes if (node.record.status.owner or node.record.spec.owner) == provider(user)]
    used: dict[str, set[str]] = {node.record.name: set() for node in mine}
    for job in fleet.live:
        for run in job.status.runs:
            for slot in run.placement if run.state is not RunState.ENDED else ():
                if slot.node in used:
                    used[slot.node].add(str(run.id))
    return tuple(OwnNode(node, len(used[node.record.name])) for node in mine)


def drift(fleet: Fleet) -> list[str]:
    """Where node records and workloads disagree about what runs, in words; a moment's disagreement is daily life."""
    live = {str(run.id): run for job in fleet.live for run in job.status.runs if run.state is not RunState.ENDED}
    told = {run: node.record.name for node in fleet.nodes for run in node.record.status.ran}
    found = [f"{node} tells of {run}, which no workload holds" for run, node in told.items() if run not in live]
    found += [
        f"{run} is Running, and no node tells of it" for run, each in live.items() if each.state is RunState.RUNNING and run not in told
    ]
    return sorted(found)
