"""How full a fleet gets when asks only arrive and nothing leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.packing import NoRoom
from core.simulation.arrivals import wanted
from core.simulation.placing import Placer
from ports.workloads import Ask, RunId


def fill(placer: Placer, asks: Iterable[Ask], fleet: int, marks: Sequence[float] = (1.0, 1.3)) -> tuple[float, ...]:
    """For each mark (ascending): the share of the fleet's VRAM that is asked for and placed, once asks for `mark` times the
    fleet's VRAM have arrived. fleet: MiB. A mark that the asks don't reach gets what they came to."""
    asked = placed = 0
    found: list[float] = []
    for count, ask in enumerate(asks, 1):
        mib = wanted(ask)
        asked += mib
        if not isinstance(placer.place(RunId(f"job-{count}", 1), ask), NoRoom):
            placed += mib
        while len(found) < len(marks) and asked >= marks[len(found)] * fleet:
            found.append(placed / fleet)
    return (*found, *(placed / fleet for _ in marks[len(found) :]))
