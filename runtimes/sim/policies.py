"""The placement policies that can be compared, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core.ledger import VramLedger
from core.simulation.trace import Machine, new_ledger
from ports.errors import Invalid

DEFAULT = ("best_fit",)
LEDGERS: dict[str, Callable[[Sequence[Machine]], VramLedger]] = {"best_fit": new_ledger}


def checked(names: Sequence[str]) -> tuple[str, ...]:
    """Each once, in the order given. Raises Invalid."""
    for name in names:
        if name not in LEDGERS:
            raise Invalid(f"--policy {name!r:.60} is unknown.", "--policy", f"Give one of {', '.join(LEDGERS)}.", name)
    return tuple(dict.fromkeys(names))
