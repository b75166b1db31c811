"""How fast a cluster is simulated: a day of 6,212 GPUs, made as the public openb trace is, played through `core.simulation`.

    python -m benchmarks.simulate [--json] [--seed 0]
    python -m benchmarks.simulate NODES.csv PODS.csv      on the trace itself, with as many jobs as came to fill a day

Two days of 7,064 jobs: a calm one in which nobody waits, and one on a fifth of the fleet with jobs that run longer, in
which most do. An event is a submit or an end; ledger, queue, prices and outcomes are all included.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from core.simulation.figures import figures
from core.simulation.replay import replay
from core.simulation.submissions import Submission
from core.simulation.trace import Machine, Pod, new_ledger
from ports.tariffs import Tariff
from ports.units import Instant, Mib
from runtimes.sim import fleets, timed
from runtimes.sim.openb import MIB, read_nodes
from runtimes.sim.timed import DAY_MS, Timed

NODES = (("G2", 8, 549), ("T4", 2, 404), ("P100", 2, 133), ("V100M16", 4, 49), ("G3", 8, 39), ("V100M32", 8, 26), ("A10", 1, 2))
JOBS = 7_064
FULL_SHARE = 0.2  # of the fleet, on the full day
PARTS = (60, 130, 230, 380, 460, 500, 700, 850)  # thousandths of a GPU
LIVES = (75_000, 140_000, 300_000, 550_000, 900_000, 1_400_000, 2_800_000, 25_000_000)  # ms, each as likely


def machines() -> tuple[Machine, ...]:
    return tuple(Machine(f"{model}-{at:04d}", model, gpus, Mib(MIB[model])) for model, gpus, nodes in NODES for at in range(nodes))


def jobs(seed: int) -> tuple[Timed, ...]:
    """44 % fractions, 55 % whole GPUs, 1 % several of a node; over one day."""
    dice = random.Random(seed)
    found = []
    for at in range(JOBS):
        kind = dice.random()
        pod = Pod(1, dice.choice(PARTS)) if kind < 0.44 else Pod(1 if kind < 0.99 else dice.choice((2, 4, 8, 8)), 1000)
        found.append(Timed(f"pod-{at:05d}", pod, dice.randrange(DAY_MS), int(dice.choice(LIVES) * (0.5 + dice.random()))))
    return tuple(found)


def squeezed(rows: Sequence[Timed]) -> tuple[Timed, ...]:
    """The same jobs, come within a day."""
    first, last = min(each.at for each in rows), max(each.at for each in rows)
    return tuple(Timed(each.name, each.pod, (each.at - first) * DAY_MS // max(1, last - first), each.ran) for each in rows)


def measure(what: str, fleet: Sequence[Machine], rows: Sequence[Timed], seed: int) -> tuple[int, float]:
    """Events and seconds."""
    given: list[Submission] = timed.submissions(rows, fleet, seed, 0.5, 1.0)
    ledger, tariff = new_ledger(fleet), Tariff(1, Instant(0), 0, 1_000_000)
    start = time.perf_counter()
    found = replay(ledger, given, tariff)
    took = time.perf_counter() - start
    events, come = 2 * len(given), figures(found)
    print(
        f"{what}: {sum(each.gpus for each in fleet):,} GPUs, {events:,} events in {took:.2f} s, {events / took:,.0f} per second;"
        f" {come.waited:,} waited, at most {100 * come.peak:.0f} % booked",
        file=sys.stderr,
        flush=True,
    )
    return events, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", nargs="?", type=Path)
    parser.add_argument("pods", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    listed = machines() if given.nodes is None else read_nodes(given.nodes)
    rows = jobs(given.seed) if given.pods is None else squeezed(timed.read_timed(given.pods))
    busy = [Timed(each.name, each.pod, each.at, 12 * each.ran) for each in rows]
    fleet = fleets.rented(listed, 0.3, given.seed)
    calm, tight = measure("a calm day", fleet, rows, given.seed), measure("a full day", fleets.part(fleet, FULL_SHARE), busy, given.seed)
    print(f"a simulated day takes {calm[1]:.1f} s, or {tight[1]:.1f} s if most jobs wait")
    if given.json:
        rate = (calm[0] + tight[0]) / (calm[1] + tight[1])
        figure = {"events_per_s": round(rate), "calm_day_s": round(calm[1], 2), "full_day_s": round(tight[1], 2)}
        print(json.dumps(figure))


if __name__ == "__main__":
    main()
