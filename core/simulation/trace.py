"""What a simulation is fed: the machines of a fleet, and the pods that were once asked of it.

Both come from outside (see `runtimes.sim.openb`) and are checked there; nothing here reads a file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from attrs import frozen

from core.ledger import VramLedger
from core.policies import Policy
from ports.nodes import ORG, Gpu
from ports.units import Mib


@frozen
class Machine:
    """One node: `gpus` GPUs of one model, each of `total`."""

    name: str
    model: str
    gpus: int
    total: Mib
    owner: str = ORG
    vendor: str = "nvidia"


@frozen
class Pod:
    """One row of a trace. milli: thousandths of a GPU, of each of `gpus`. models: those it may run on; empty: any."""

    gpus: int
    milli: int
    models: frozenset[str] = frozenset()


def capacity(machines: Iterable[Machine]) -> int:
    """MiB of VRAM of the fleet."""
    return sum(each.gpus * each.total.n for each in machines)


def gpus_by_model(machines: Iterable[Machine]) -> Counter[str]:
    """How many GPUs of each model there are."""
    counted: Counter[str] = Counter()
    for each in machines:
        counted[each.model] += each.gpus
    return counted


def new_ledger(machines: Sequence[Machine], policy: Policy | None = None) -> VramLedger:
    """An empty ledger of that fleet."""
    ledger = VramLedger(policy)
    for each in machines:
        ledger.add_node(each.name, each.owner, [Gpu(at, each.model, each.vendor, each.total) for at in range(each.gpus)])
    return ledger
