"""What a placement policy costs: the time of `reserve` over best fit's, on the same asks and a fleet about 95 % full and churning.

    python -m benchmarks.policies [NODES.csv PODS.csv] [--json] [--seed 0] [--ops 30000]

Without files: a made-up fleet of 6,000 GPUs of six sizes, and asks of which 44 % are for a part of one. Processor time of
whole calls, learning included, from the first ask on: the mean, and the median, which is of the calls that refresh nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from attrs import frozen

from core.ledger import NoRoom
from core.owners import ORG_POOL
from core.policies import PlacementPolicy, policy
from core.simulation.arrivals import Arrivals, wanted
from core.simulation.trace import Machine, Pod, new_ledger
from ports.units import Mib
from ports.workloads import RunId
from runtimes.sim.openb import read_nodes, read_pods

FULL = 0.95
MODELS = (
    ("G", 20_000, 8, 500),
    ("T", 15_109, 2, 400),
    ("P", 16_280, 2, 130),
    ("H", 30_000, 8, 40),
    ("V", 32_510, 8, 25),
    ("A", 22_731, 4, 60),
)
MILLI = (1000,) * 12 + (810, 810, 810, 470, 470, 320, 320, 650, 230, 460)


@frozen
class Cost:
    """Microseconds of a call. refused: share of the VRAM asked for."""

    mean: float
    median: float
    refused: float


def made_up(draw: random.Random) -> tuple[tuple[Machine, ...], tuple[Pod, ...]]:
    machines = (Machine(f"{model}{at:04}", model, gpus, Mib(mib)) for model, mib, gpus, nodes in MODELS for at in range(nodes))
    return tuple(machines), tuple(Pod(8 if draw.random() < 0.01 else 1, draw.choice(MILLI)) for _ in range(5_000))


def measure(name: PlacementPolicy, machines: Sequence[Machine], arrivals: Arrivals, seed: int, ops: int) -> Cost:
    draw, ledger = random.Random(seed), new_ledger(machines, policy(name))
    live: list[tuple[RunId, int]] = []
    took: list[int] = []
    used = asked = refused = 0
    gc.collect()
    for count in range(ops):
        run, ask = RunId(f"job-{count}", 1), arrivals.any(draw)
        start = time.thread_time_ns()
        placed = ledger.reserve(run, ask, (ORG_POOL,))
        took.append(time.thread_time_ns() - start)
        asked += wanted(ask)
        if isinstance(placed, NoRoom):
            refused += wanted(ask)
        else:
            mib = sum(slot.mib.n for slot in placed)
            live.append((run, mib))
            used += mib
        while used > FULL * arrivals.fleet:
            at = draw.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            over, mib = live.pop()
            used -= mib
            ledger.release(over)
    return Cost(fmean(took) / 1e3, median(took) / 1e3, refused / asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="CSV", help="node list and pod list of an openb trace")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", type=int, default=30_000, help="asks")
    given = parser.parse_args()
    if len(given.files) not in (0, 2):
        parser.error("give a node list and a pod list, or neither")
    machines, pods = (read_nodes(given.files[0]), read_pods(given.files[1])) if given.files else made_up(random.Random(given.seed))
    arrivals = Arrivals(machines, pods)
    costs = {name: measure(name, machines, arrivals, given.seed, given.ops) for name in PlacementPolicy}
    base, figures = costs[PlacementPolicy.BEST_FIT], {}
    print(f"{'policy':<16} {'mean us':>9} {'median us':>10} {'ratio':>7} {'of medians':>11} {'refused':>8}")
    for name, each in costs.items():
        ratio, of_medians = each.mean / base.mean, each.median / base.median
        print(f"{name.value:<16} {each.mean:>9.2f} {each.median:>10.2f} {ratio:>7.2f} {of_medians:>11.2f} {each.refused:>8.2%}")
        figures[name.value] = {"ratio": round(ratio, 2), "ratio_p50": round(of_medians, 2)}
    if given.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
