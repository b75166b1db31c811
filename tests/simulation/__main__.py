"""`python -m tests.simulation --seed N --steps M`: episodes from one seed; the first failure is shrunk and shown step by step."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.simulation.episodes import LENGTH, Failure, actions_of, play, run, shrink
from tests.simulation.world import World


def show(failure: Failure) -> None:
    print(f"\n{failure}\n")
    play(failure.episode, failure.actions, tell=print)
    print(f"\n{failure.kind}: {failure.error}")


def explore(seed: int, steps: int, shrinks: bool) -> bool:
    """Episodes of one seed; whether all was well."""
    began, ended = time.monotonic(), 0

    def count(world: World) -> None:
        nonlocal ended
        ended += len(world.stored())

    failure = run(seed, steps, each=count)
    if failure is not None:
        show(shrink(failure) if shrinks else failure)
        print(f"\nreplay: python -m tests.simulation --seed {seed} --steps {steps}   (episode {failure.episode})", flush=True)
        return False
    took = time.monotonic() - began
    rate = f"{took:.1f} s, {steps / took:.0f} steps per second"
    print(f"seed {seed}: {-(-steps // LENGTH)} episodes, {steps} steps, {ended} jobs ended, {rate}", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--steps", type=int, default=20_000, help="actions per seed")
    parser.add_argument("--at-once", type=int, default=1, help="seeds that are explored at a time, each in a process of its own")
    parser.add_argument("--episode", help="replay this one ('<seed>/<number>') step by step")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    if min(given.seeds, given.steps, given.at_once) < 1:
        parser.error("--seeds, --steps and --at-once are 1 or more")
    if given.episode:
        _, failure = play(given.episode, actions_of(given.episode), tell=print)
        print(failure or "all is well")
        return int(failure is not None)
    seeds = range(given.seed, given.seed + given.seeds)
    if given.at_once == 1:
        return int(not all(explore(seed, given.steps, not given.no_shrink) for seed in seeds))
    with ProcessPoolExecutor(given.at_once) as pool:
        explored = [pool.submit(explore, seed, given.steps, not given.no_shrink) for seed in seeds]
        well = [each.result() for each in as_completed(explored)]
    return int(not all(well))


if __name__ == "__main__":
    sys.exit(main())
