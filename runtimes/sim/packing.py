"""`fill` and `churn`: the same arrivals for every policy, a mean over seeds, a bar meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

from core.packing import NoRoom
from core.simulation.arrivals import Arrivals
from core.simulation.churn import MEASURED, WARM, churn
from core.simulation.fill import fill
from core.simulation.placing import LedgerPlacer, Placer
from core.simulation.trace import Machine, capacity
from ports.errors import Invalid
from ports.workloads import Ask, Placement, RunId
from runtimes.sim.openb import read_nodes, read_pods
from runtimes.sim.policies import LEDGERS
from runtimes.sim.progress import bar

MARKS = (1.0, 1.3)
TOLD_EVERY = 100  # asks
MOST_LOAD = 100.0

Shares = dict[str, float]


def filled(nodes: Path, pods: Path, names: Sequence[str], seeds: Sequence[int]) -> dict[str, Shares]:
    """Per cent of the fleet's VRAM that is asked for and placed, at each mark. Raises Invalid."""
    machines, arrivals = _read(nodes, pods)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    expected = MARKS[-1] * arrivals.fleet / arrivals.mean()
    with bar(expected * len(names) * len(seeds)) as told:
        for turn, (seed, name) in enumerate((seed, name) for seed in seeds for name in names):

            def so_far(count: int, what: str = f"{name}, seed {seed}", before: float = turn * expected) -> None:
                told(what, before + count)

            asks = _counted(arrivals.upto(MARKS[-1], _dice(seed)), so_far)
            found[name].append(fill(LedgerPlacer(LEDGERS[name](machines)), asks, capacity(machines), MARKS))
    marks = [f"fill_{round(100 * mark)}" for mark in MARKS]
    return {
        name: {mark: _per_cent(each) for mark, each in zip(marks, zip(*of_seeds, strict=True), strict=True)}
        for name, of_seeds in found.items()
    }


def churned(nodes: Path, pods: Path, names: Sequence[str], loads: Sequence[str], seeds: Sequence[int]) -> dict[str, dict[str, Shares]]:
    """Per policy and offered load (as it was written): per cent of the VRAM asked for that is refused, of the fleet's that is
    allocated. Raises Invalid."""
    machines, arrivals = _read(nodes, pods)
    wanted = [(text, load(text)) for text in dict.fromkeys(loads)]
    expected = [each * arrivals.fleet / arrivals.mean() * (WARM + MEASURED) for _, each in wanted]
    found: dict[str, dict[str, Shares]] = {name: {} for name in names}
    with bar(sum(expected) * len(names) * len(seeds)) as told:
        before = 0.0
        for (text, offered), events in zip(wanted, expected, strict=True):
            for name in names:
                each = []
                for seed in seeds:

                    def so_far(count: int, what: str = f"{name}, load {text}, seed {seed}", before: float = before) -> None:
                        told(what, before + count)

                    placer = _Counting(LedgerPlacer(LEDGERS[name](machines)), so_far)
                    each.append(churn(placer, arrivals, offered, _dice(seed)))
                    before += events
                found[name][text] = {
                    "refused": _per_cent([one.refused for one in each]),
                    "allocated": _per_cent([one.allocated for one in each]),
                }
    return found


def load(text: str) -> float:
    """Raises Invalid."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MOST_LOAD:
        raise Invalid(f"--load {text!r:.40} can't be used.", "--load", "Give the VRAM wanted at a time over the fleet's, as in 0.95.", text)
    return value


def _read(nodes: Path, pods: Path) -> tuple[tuple[Machine, ...], Arrivals]:
    machines = read_nodes(nodes)
    return machines, Arrivals(machines, read_pods(pods))


def _dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret is made of it


def _counted(asks: Iterable[Ask], so_far: Callable[[int], None]) -> Iterator[Ask]:
    for count, ask in enumerate(asks):
        if count % TOLD_EVERY == 0:
            so_far(count)
        yield ask


class _Counting:
    """Places as another does, and tells how often it was asked."""

    def __init__(self, placer: Placer, so_far: Callable[[int], None]) -> None:
        self._placer, self._so_far, self._count = placer, so_far, 0

    def place(self, run: RunId, ask: Ask) -> Placement | NoRoom:
        if self._count % TOLD_EVERY == 0:
            self._so_far(self._count)
        self._count += 1
        return self._placer.place(run, ask)

    def release(self, run: RunId) -> None:
        self._placer.release(run)


def _per_cent(shares: Sequence[float]) -> float:
    return round(100 * fmean(shares), 3)
