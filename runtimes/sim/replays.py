"""Replays of one question: every policy on the same scenarios, one per seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from core.simulation.replay import replay
from core.simulation.submissions import Replayed
from runtimes.sim.policies import LEDGERS
from runtimes.sim.progress import bar
from runtimes.sim.scenario import Scenario


@frozen
class Replays:
    """by_policy: what came of each, by seed. first: the scenario of the first seed, which is what pictures show."""

    first: Scenario
    by_policy: dict[str, dict[int, Replayed]]

    @property
    def gpus(self) -> int:
        return sum(each.gpus for each in self.first.machines)

    def shown(self) -> dict[str, Replayed]:
        """By policy, of the first seed."""
        return {name: next(iter(each.values())) for name, each in self.by_policy.items()}


def replayed(of_seed: Callable[[int], Scenario], names: Sequence[str], seeds: Sequence[int]) -> Replays:
    """Raises Invalid."""
    found: dict[str, dict[int, Replayed]] = {name: {} for name in names}
    first = of_seed(seeds[0])
    events = 2 * len(first.submissions)
    with bar(events * len(names) * len(seeds)) as told:
        for turn, seed in enumerate(seeds):
            scenario = first if turn == 0 else of_seed(seed)
            for at, name in enumerate(names):

                def so_far(done: int, what: str = f"{name}, seed {seed}", before: int = (turn * len(names) + at) * events) -> None:
                    told(what, before + done)

                so_far(0)
                found[name][seed] = replay(LEDGERS[name](scenario.machines), scenario.submissions, scenario.tariff, so_far)
    return Replays(first, found)
