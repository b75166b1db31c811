"""How long the ledger takes to place and book, on fleets of 1,000, 10,000 and 100,000 GPUs about 90 % full and churning.

    python -m benchmarks.ledger [--json] [--seed 0] [--ops 20000]

Every operation is a whole `reserve`: id and ask validated, GPUs chosen over the caller's pools, slots made, booked. The
mix: 55 % fractions of a GPU, 37 % whole GPUs, 4 % several whole GPUs of one node, 1 % shares of several, 3 % gangs (a public
production trace has 44, 55 and 1 %, and neither shares of several nor gangs). A third name a model; half of the callers may use
providers' hardware first. Between two of them random runs end until the fleet is back at 90 %.

Beside it, in the same run, the naive alternative for the same asks of one GPU: one pass over flat lists of all GPUs.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Sequence
from statistics import median

from attrs import frozen

from core.ledger import NoRoom, VramLedger
from core.owners import Pool, pools
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask, RunId, Slot

SIZES = (1_000, 10_000, 100_000)
FULL = 0.9
TURN = 1_000
MODELS = (("A100-80GB", 81_920, 8), ("H100-80GB", 81_559, 8), ("A10", 23_028, 4), ("L4-24GB", 24_576, 2), ("V100-32GB", 32_768, 4))
FREE, PAID = pools("u", "free"), pools("u", "paid")


@frozen
class Timings:
    """Microseconds per operation on one fleet. refused: share of asks without room. full: share of VRAM booked."""

    gpus: int
    p50: float
    p99: float
    naive_p50: float
    release_p50: float
    release_p99: float
    refused: float
    full: float

    @property
    def ratio(self) -> float:
        return self.naive_p50 / self.p50


def fleet(size: int, draw: random.Random) -> VramLedger:
    """About `size` GPUs: two thirds of the nodes are org's, the others belong to twenty providers."""
    ledger, gpus = VramLedger(), 0
    while gpus < size:
        model, mib, count = draw.choice(MODELS)
        owner = "org" if draw.random() < 2 / 3 else f"provider:p{draw.randrange(20)}"
        ledger.add_node(f"node-{draw.randrange(10**9):09d}", owner, [Gpu(at, model, "nvidia", Mib(mib)) for at in range(count)])
        gpus += count
    return ledger


def ask(draw: random.Random) -> tuple[Ask, Sequence[Pool]]:
    which = draw.random()
    model = draw.choice(MODELS)[0] if draw.random() < 1 / 3 else None
    who = draw.choice((FREE, PAID))
    if which < 0.55:
        return Ask(Mib(draw.randrange(512, 16_384)), model=model), who
    if which < 0.92:
        return Ask(Mib(16_000), model=model, exclusive=True), who
    if which < 0.96:
        return Ask(Mib(16_000), draw.choice((2, 4)), model=model, exclusive=True), who
    if which < 0.97:
        return Ask(Mib(draw.randrange(512, 16_384)), 2, model=model), who
    return Ask(Mib(draw.randrange(512, 8_192)), 1, draw.choice((2, 4)), model=model), who


class Churn:
    """A fleet that is kept about 90 % full."""

    def __init__(self, size: int, draw: random.Random) -> None:
        self.draw, self.ledger, self.count = draw, fleet(size, draw), 0
        self.live: list[tuple[RunId, int]] = []
        self.capacity = sum(gpu.gpu.total.n for node in self.ledger.view().nodes.values() for gpu in node.gpus)
        self.used, self.refused = 0, 0
        self.took: list[float] = []
        self.release_took: list[float] = []

    def step(self) -> None:
        wanted, who = ask(self.draw)
        self.count += 1
        run = RunId(f"job-{self.count:08d}", 1)
        start = time.perf_counter()
        placed = self.ledger.reserve(run, wanted, who)
        self.took.append(time.perf_counter() - start)
        if isinstance(placed, NoRoom):
            self.refused += 1
        else:
            mib = sum(slot.mib.n for slot in placed)
            self.live.append((run, mib))
            self.used += mib
        while self.used > FULL * self.capacity:
            self._end_one()

    def _end_one(self) -> None:
        at = self.draw.randrange(len(self.live))
        self.live[at], self.live[-1] = self.live[-1], self.live[at]
        run, mib = self.live.pop()
        start = time.perf_counter()
        self.ledger.release(run)
        self.release_took.append(time.perf_counter() - start)
        self.used -= mib


class Scan:
    """The naive alternative: flat lists, in the order of node name and GPU index, and one pass over all of them."""

    def __init__(self, ledger: VramLedger) -> None:
        view = ledger.view()
        rows = [(node, gpu) for name in sorted(view.nodes) for node in (view.nodes[name],) for gpu in node.gpus]
        self.places = [(node.name, gpu.gpu.index) for node, gpu in rows]
        self.free = [gpu.free.n for _, gpu in rows]
        self.total = [gpu.gpu.total.n for _, gpu in rows]
        self.model = [gpu.gpu.model for _, gpu in rows]
        self.org = [node.owner == "org" for node, _ in rows]

    def reserve(self, wanted: Ask, who: Sequence[Pool]) -> tuple[Slot, ...]:
        need, model, alone = wanted.mib.n, wanted.model, wanted.exclusive
        for pool in who:
            org = pool.owners == "org"
            rows = zip(self.free, self.total, self.model, self.org, strict=True)
            fits = [
                (free, at)
                for at, (free, total, has, owner) in enumerate(rows)
                if free >= need and owner is org and (model is None or has == model) and (free == total or not alone)
            ]
            if fits:
                free, at = min(fits)
                self.free[at] -= free if alone else need
                node, index = self.places[at]
                return (Slot(node, index, Mib(free) if alone else wanted.mib),)
        return ()


def filled(size: int, seed: int) -> Churn:
    churn = Churn(size, random.Random(seed))
    say(f"{size:,} GPUs: filling")
    while churn.used < (FULL - 0.005) * churn.capacity:
        churn.step()
    for _ in range(size // 2):
        churn.step()
    churn.took.clear()
    churn.release_took.clear()
    churn.refused = 0
    return churn


def measure(seed: int, ops: int) -> list[Timings]:
    """In turns of a thousand operations per fleet, so that a busy neighbour slows all of them alike."""
    churns = [filled(size, seed) for size in SIZES]
    gc.collect()
    gc.freeze()
    for turn in range(ops // TURN):
        say(f"{turn * TURN:,} of {ops:,} operations per fleet")
        for churn in churns:
            for _ in range(TURN):
                churn.step()
    gc.unfreeze()
    return [timings(size, churn) for size, churn in zip(SIZES, churns, strict=True)]


def timings(size: int, churn: Churn) -> Timings:
    took, ended = sorted(churn.took), sorted(churn.release_took)
    return Timings(
        size,
        _us(median(took)),
        _us(took[len(took) * 99 // 100]),
        _us(_naive(churn, max(31, 1_000_000 // size))),
        _us(median(ended)),
        _us(ended[len(ended) * 99 // 100]),
        churn.refused / len(took),
        churn.used / churn.capacity,
    )


def _naive(churn: Churn, times: int) -> float:
    """The median of scanning the same fleet for the same kind of asks."""
    scan, took = Scan(churn.ledger), list[float]()
    while len(took) < times:
        wanted, who = ask(churn.draw)
        if wanted.gpus == wanted.workers == 1:
            start = time.perf_counter()
            scan.reserve(wanted, who)
            took.append(time.perf_counter() - start)
    return median(took)


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", type=int, default=20_000, help="measured operations per fleet")
    given = parser.parse_args()
    small, middle, large = rows = measure(given.seed, max(TURN, given.ops))
    print(f"{'GPUs':>8} {'p50 us':>8} {'p99 us':>8} {'naive us':>10} {'ratio':>8} {'release':>8} {'p99':>8} {'refused':>8} {'full':>6}")
    for row in rows:
        print(
            f"{row.gpus:>8,} {row.p50:>8.2f} {row.p99:>8.2f} {row.naive_p50:>10.1f} {row.ratio:>8.0f} {row.release_p50:>8.2f}"
            f" {row.release_p99:>8.2f} {row.refused:>8.1%} {row.full:>6.1%}"
        )
    if given.json:
        figures = {"p50_us_1k": small.p50, "p50_us_10k": middle.p50, "p99_us_10k": middle.p99, "p50_us_100k": large.p50}
        print(json.dumps(figures | {"ratio_10k": round(middle.ratio, 1), "ratio_100k": round(large.ratio, 1)}))


if __name__ == "__main__":
    main()
