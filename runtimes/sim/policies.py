"""The placement policies that can be compared, by name: those of production, and two to measure them by."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from core.ledger import VramLedger
from core.policies import PlacementPolicy, policy
from core.simulation.baselines import Baseline
from core.simulation.trace import Machine, new_ledger
from ports.errors import Invalid

DEFAULT = ("best_fit",)


def _made(name: PlacementPolicy, machines: Sequence[Machine]) -> VramLedger:
    return new_ledger(machines, policy(name))


def _first_fit(machines: Sequence[Machine]) -> VramLedger:
    return new_ledger(machines, Baseline())


def _random(machines: Sequence[Machine]) -> VramLedger:
    return new_ledger(machines, Baseline(random.Random(0)))  # noqa: S311 - no secret is made of it


LEDGERS: dict[str, Callable[[Sequence[Machine]], VramLedger]] = {
    **{name.value: partial(_made, name) for name in PlacementPolicy},
    "first_fit": _first_fit,
    "random": _random,
}


def checked(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, in the order given. Raises Invalid."""
    for name in names:
        if name not in LEDGERS:
            raise Invalid(f"--policy {name!r:.60} is unknown.", "--policy", f"Give one of {', '.join(LEDGERS)}.", name)
    return tuple(dict.fromkeys(names))
