"""Does a placement policy hold where it was not tuned? Fill and churn on fleets and traces that are changed at random.

    python -m benchmarks.policy_robustness NODES.csv PODS.csv [--json] [--variants 6] [--load 0.9 --load 1.1]

Each variant keeps a random part of the nodes of each model (10 to 100 %), and draws its rows anew: every amount that is asked
for becomes more or less frequent by up to four times, and is itself changed by up to a quarter. Printed: each policy's
figures less best fit's, in percentage points.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

from core.policies import PlacementPolicy, policy
from core.simulation.arrivals import Arrivals
from core.simulation.churn import churn
from core.simulation.fill import fill
from core.simulation.placing import LedgerPlacer
from core.simulation.trace import Machine, Pod, new_ledger
from runtimes.sim.openb import read_nodes, read_pods


def changed(machines: Sequence[Machine], pods: Sequence[Pod], draw: random.Random) -> tuple[tuple[Machine, ...], tuple[Pod, ...]]:
    keep = {model: draw.uniform(0.1, 1.0) for model in sorted({each.model for each in machines})}
    nodes = tuple(each for each in machines if draw.random() < keep[each.model])
    kinds = sorted({(each.gpus, each.milli) for each in pods})
    weight = {kind: 4.0 ** draw.uniform(-1, 1) for kind in kinds}
    milli = {kind: min(999, max(10, round(kind[1] * draw.uniform(0.75, 1.25)))) if kind[1] < 1000 else 1000 for kind in kinds}
    widest = max(each.gpus for each in nodes)
    rows = draw.choices(pods, [weight[each.gpus, each.milli] for each in pods], k=len(pods))
    return nodes, tuple(Pod(each.gpus, milli[each.gpus, each.milli]) for each in rows if each.gpus <= widest)


def figures(name: PlacementPolicy, machines: Sequence[Machine], arrivals: Arrivals, loads: Sequence[float], seed: int) -> dict[str, float]:
    """Per cent."""

    def placer() -> LedgerPlacer:
        return LedgerPlacer(new_ledger(machines, policy(name)))

    full = fill(placer(), arrivals.upto(1.3, random.Random(seed)), arrivals.fleet)
    found = {"fill_100": 100 * full[0], "fill_130": 100 * full[1]}
    for load in loads:
        each = churn(placer(), arrivals, load, random.Random(seed))
        found[f"{load} refused"], found[f"{load} allocated"] = 100 * each.refused, 100 * each.allocated
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, type=Path, metavar="CSV", help="node list and pod list of an openb trace")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--variants", type=int, default=6)
    parser.add_argument("--load", type=float, action="append")
    given = parser.parse_args()
    loads, told = given.load or [0.9, 1.1], list[dict[str, object]]()
    original = read_nodes(given.files[0]), read_pods(given.files[1])
    for seed in range(given.variants):
        machines, pods = changed(*original, random.Random(seed))
        arrivals = Arrivals(machines, pods)
        base = figures(PlacementPolicy.BEST_FIT, machines, arrivals, loads, seed)
        print(f"{seed} best_fit        " + "  ".join(f"{key} {value:6.2f}" for key, value in base.items()), flush=True)
        for name in (each for each in PlacementPolicy if each is not PlacementPolicy.BEST_FIT):
            less = {key: value - base[key] for key, value in figures(name, machines, arrivals, loads, seed).items()}
            print(f"{seed} {name.value:<15} " + "  ".join(f"{key} {value:+6.2f}" for key, value in less.items()), flush=True)
            told.append({"variant": seed, "policy": name.value} | {key: round(value, 3) for key, value in less.items()})
    if given.json:
        print(json.dumps(told))


if __name__ == "__main__":
    main()
