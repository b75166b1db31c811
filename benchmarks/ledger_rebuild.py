"""How long a new scheduler takes to rebuild the ledger from 100,000 live placements.

    python -m benchmarks.ledger_rebuild [--json] [--seed 0] [--placements 100000]

Measured: `adopt` for every placement, up to and with the first `reserve` after it (which makes its index). Beside it, in the same
run, the time of iterating over the same placements: reading run, node, GPU and MiB of every slot. The ratio is of the
medians of seven rounds each.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from statistics import median

from benchmarks.ledger import FREE, Churn, say
from core.ledger import NoRoom, VramLedger
from ports.units import Mib
from ports.workloads import Ask, Placement, RunId

ROUNDS = 7


def live(placements: int, seed: int) -> tuple[list[tuple[RunId, Placement]], VramLedger]:
    """That many placements as the ledger makes them, on a fleet just large enough."""
    churn = Churn(placements * 2 // 3, random.Random(seed))
    while len(churn.live) < placements:
        churn.step()
    found = [(run, churn.ledger.placement(run) or ()) for run, _ in churn.live[:placements]]
    return found, churn.ledger


def empty(like: VramLedger) -> VramLedger:
    """The same nodes, and nothing booked."""
    made = VramLedger()
    for node in like.view().nodes.values():
        made.add_node(node.name, node.owner, [each.gpu for each in node.gpus])
    return made


def iterate(placements: list[tuple[RunId, Placement]]) -> int:
    total = 0
    for run, placement in placements:
        for slot in placement:
            if run.attempt and slot.node and slot.gpu >= 0:
                total += slot.mib.n
    return total


def rebuild(ledger: VramLedger, placements: list[tuple[RunId, Placement]]) -> None:
    for run, placement in placements:
        if not ledger.adopt(run, placement):
            raise SystemExit(f"{run} could not be adopted")
    if isinstance(ledger.reserve(RunId("first", 1), Ask(Mib(512)), FREE), NoRoom):
        raise SystemExit("no room after the rebuild")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--placements", type=int, default=100_000)
    given = parser.parse_args()
    say(f"placing {given.placements:,} runs")
    placements, source = live(given.placements, given.seed)
    iterated, rebuilt = [], []
    for at in range(ROUNDS):
        say(f"round {at + 1} of {ROUNDS}")
        ledger = empty(source)
        gc.collect()
        gc.freeze()
        start = time.perf_counter()
        iterate(placements)
        between = time.perf_counter()
        rebuild(ledger, placements)
        rebuilt.append(time.perf_counter() - between)
        iterated.append(between - start)
        gc.unfreeze()
    ratio = median(rebuilt) / median(iterated)
    slots = sum(len(placement) for _, placement in placements)
    print(f"{len(placements):,} placements, {slots:,} slots: iterated in {median(iterated) * 1e3:.1f} ms,", end=" ")
    print(f"rebuilt in {median(rebuilt) * 1e3:.1f} ms")
    if given.json:
        print(json.dumps({"ratio": round(ratio, 2)}))


if __name__ == "__main__":
    main()
