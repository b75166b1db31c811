"""The placement policies that can be compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from core.ledger import VramLedger
from core.policies import PlacementPolicy, policy
from core.simulation.trace import Machine, new_ledger
from ports.errors import Invalid

DEFAULT = ("best_fit",)


def _made(name: PlacementPolicy, machines: Sequence[Machine]) -> VramLedger:
    return new_ledger(machines, policy(name))


LEDGERS: dict[str, Callable[[Sequence[Machine]], VramLedger]] = {name.value: partial(_made, name) for name in PlacementPolicy}


def checked(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, in the order given. Raises Invalid."""
    for name in names:
        if name not in LEDGERS:
            raise Invalid(f"--policy {name!r:.60} is unknown.", "--policy", f"Give one of {', '.join(LEDGERS)}.", name)
    return tuple(dict.fromkeys(names))
