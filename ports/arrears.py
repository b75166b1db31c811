"""What is owed for workloads that had to go while the credit service was away: a durable list, which the biller drains.

A debt holds the final totals of each run and the key of the hold. Totals that are posted twice are posted once, so a
debt may be added, collected and removed any number of times, by any number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from attrs import frozen

from ports.credits import Charge
from ports.units import Credits, Instant

SCHEMA = 1  # of the stored form


@frozen
class Debt:
    """uid: of the workload: the key of the debt, and of the hold that is given back when it is paid. workload: its id.
    payer: account. charges: final totals, one for each run; none: only the hold is to be given back."""

    uid: str
    workload: str
    payer: str
    charges: tuple[Charge, ...]
    since: Instant
    schema: int = SCHEMA

    @property
    def most(self) -> Credits:
        """What it can come to: ticks may have posted a part of it already."""
        return Credits(sum(total.micro for charge in self.charges for total in charge.totals.values()))


class Arrears(Protocol):
    """Every method raises Unavailable when the list can't be read or written."""

    def add(self, debt: Debt) -> None:
        """Durable when it returns. The same uid again: the same debt."""
        ...

    def debts(self) -> Iterator[Debt]:
        """All there are, in no order that means anything."""
        ...

    def remove(self, debt: Debt) -> None:
        """It is paid. No error if there is none."""
        ...
