"""`python -m tests.simulation --seed N --steps M`: episodes from one seed; the first failure is shrunk and shown step by step."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.episodes import LENGTH, Failure, actions_of, play, run, shrink
from tests.simulation.world import World


def show(failure: Failure) -> None:
    print(f"\n{failure}\n")
    play(failure.episode, failure.actions, tell=print)
    print(f"\n{failure.kind}: {failure.error}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, one after another")
    parser.add_argument("--steps", type=int, default=20_000, help="actions per seed")
    parser.add_argument("--episode", help="replay this one ('<seed>/<number>') step by step")
    parser.add_argument("--no-shrink", action="store_true")
    given = parser.parse_args()
    if given.episode:
        _, failure = play(given.episode, actions_of(given.episode), tell=print)
        print(failure or "all is well")
        return int(failure is not None)
    for seed in range(given.seed, given.seed + given.seeds):
        began, ended = time.monotonic(), 0

        def count(world: World) -> None:
            nonlocal ended
            ended += len(world.stored())

        failure = run(seed, given.steps, each=count)
        if failure is not None:
            show(failure if given.no_shrink else shrink(failure))
            print(f"\nreplay: python -m tests.simulation --seed {seed} --steps {given.steps}   (episode {failure.episode})")
            return 1
        took = time.monotonic() - began
        print(f"seed {seed}: {-(-given.steps // LENGTH)} episodes, {given.steps} steps, {ended} jobs ended, {took:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
