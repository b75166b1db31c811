"""How long the ledger takes to place and book, on fleets of 1,000, 10,000 and 100,000 GPUs about 90 % full and churning.

    python -m benchmarks.ledger [--json] [--seed 0] [--ops 20000]

Every operation is a whole `reserve`: ids and ask validated, the GPU or node chosen over the caller's pools, slots
made, booked. The mix: fractions of one GPU mostly, some whole GPUs, some for several GPUs of one node (whole and shared), a
few gangs; a third of them name a model; half of the callers may use providers' hardware. Between two of them random
runs end until the fleet is back at 90 %. Beside it, in the same run, the plain alternative: a list of GPUs scanned from
end to end for the tightest (one GPU, no constraint: less than the ledger is asked for).
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
from ports.workloads import Ask, RunId

SIZES = (1_000, 10_000, 100_000)
FULL = 0.9
MODELS = (("A100-80GB", 81_920, 8), ("H100-80GB", 81_559, 8), ("A10", 23_028, 4), ("L4-24GB", 24_576, 2), ("V100-32GB", 32_768, 4))
FREE, PAID = pools("u", "free"), pools("u", "paid")


@frozen
class Timings:
    """Microseconds per operation, of one fleet. mib_free: how much was free, in parts of all."""

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
    if which < 0.75:
        return Ask(Mib(draw.randrange(512, 16_384)), model=model), who
    if which < 0.85:
        return Ask(Mib(16_000), model=model, exclusive=True), who
    if which < 0.93:
        return Ask(Mib(16_000), draw.choice((2, 4)), model=model, exclusive=True), who
    if which < 0.97:
        return Ask(Mib(draw.randrange(512, 16_384)), 2, model=model), who
    return Ask(Mib(draw.randrange(512, 8_192)), 1, draw.choice((2, 4)), model=model), who


def scan(free: list[int], need: int) -> int:
    """The plain alternative: where in the list the tightest GPU is."""
    return free.index(min([each for each in free if each >= need]))


class Churn:
    """A fleet that is kept about 90 % full."""

    def __init__(self, size: int, draw: random.Random) -> None:
        self.draw, self.ledger, self.count = draw, fleet(size, draw), 0
        self.live: list[tuple[RunId, int]] = []
        view = self.ledger.view()
        self.capacity = sum(gpu.gpu.total.n for node in view.nodes.values() for gpu in node.gpus)
        self.used = 0
        self.took: list[float] = []
        self.release_took: list[float] = []
        self.refused = 0

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


def measure(size: int, seed: int, ops: int) -> Timings:
    churn = Churn(size, random.Random(seed))
    say(f"{size:,} GPUs: filling")
    while churn.used < (FULL - 0.005) * churn.capacity:
        churn.step()
    for _ in range(size // 2):
        churn.step()
    say(f"{size:,} GPUs: {len(churn.live):,} runs live, measuring {ops:,} operations")
    churn.took.clear()
    churn.release_took.clear()
    churn.refused = 0
    gc.collect()
    gc.freeze()
    for _ in range(ops):
        churn.step()
    gc.unfreeze()
    took, ended = sorted(churn.took), sorted(churn.release_took)
    naive = _naive(churn, max(40, 2_000_000 // size))
    return Timings(
        size,
        _us(median(took)),
        _us(took[len(took) * 99 // 100]),
        _us(naive),
        _us(median(ended)),
        _us(ended[len(ended) * 99 // 100]),
        churn.refused / ops,
        churn.used / churn.capacity,
    )


def _naive(churn: Churn, times: int) -> float:
    """The median of scanning the same fleet's free MiB, and booking."""
    free = [gpu.free.n for node in churn.ledger.view().nodes.values() for gpu in node.gpus]
    took = []
    for _ in range(times):
        need = churn.draw.randrange(512, 16_384)
        start = time.perf_counter()
        at = scan(free, need)
        free[at] -= need
        took.append(time.perf_counter() - start)
        free[at] += need
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
    rows = [measure(size, given.seed, given.ops) for size in SIZES]
    print(f"{'GPUs':>8} {'p50 us':>8} {'p99 us':>8} {'naive us':>10} {'ratio':>8} {'release':>8} {'p99':>8} {'refused':>8} {'full':>6}")
    for row in rows:
        print(
            f"{row.gpus:>8,} {row.p50:>8.2f} {row.p99:>8.2f} {row.naive_p50:>10.1f} {row.ratio:>8.0f} {row.release_p50:>8.2f}"
            f" {row.release_p99:>8.2f} {row.refused:>8.1%} {row.full:>6.1%}"
        )
    if given.json:
        small, middle, large = rows
        print(
            json.dumps(
                {
                    "p50_us_1k": small.p50,
                    "p50_us_10k": middle.p50,
                    "p99_us_10k": middle.p99,
                    "p50_us_100k": large.p50,
                    "ratio_10k": round(middle.ratio, 1),
                    "ratio_100k": round(large.ratio, 1),
                }
            )
        )


if __name__ == "__main__":
    main()
