"""Nothing is lost, leaked, run twice or charged twice, whatever dies: thousands of drawn histories of the whole cluster.

A failure names its seed; `python -m tests.simulation --seed N --steps M` replays it, shrunk and step by step.
"""

from __future__ import annotations

import pytest

from core.schedule import Scheduler
from ports.cluster import Command, Kill
from ports.workloads import ExitKind
from tests.simulation.actions import DAILY, MISHAPS
from tests.simulation.episodes import Make, actions_of, play, run, shrink
from tests.simulation.faults import POINTS, Mode
from tests.simulation.invariants import BrokenError
from tests.simulation.world import World

SEEDS = (1, 2, 3, 4)
STEPS = 5_000


@pytest.mark.parametrize("seed", SEEDS)
def test_every_invariant_holds_after_every_step_and_everything_comes_to_rest(seed: int) -> None:
    """The promise of the design, on histories that nobody would think of."""
    failure = run(seed, STEPS)
    assert failure is None, f"{failure}\nreplay: python -m tests.simulation --seed {seed} --steps {STEPS}"


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(1, 11))
def test_the_same_for_a_million_steps(seed: int) -> None:
    failure = run(seed, 1_000_000)
    assert failure is None, f"{failure}\nreplay: python -m tests.simulation --seed {seed} --steps 1000000"


def test_an_episode_is_the_same_each_time() -> None:
    """Else a failure could not be replayed, and a shrunk one would be another."""
    traces: list[list[str]] = [[], []]
    for trace in traces:
        play("1/3", actions_of("1/3"), tell=trace.append)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 250


def test_episodes_reach_what_they_are_for() -> None:
    """A simulation that never crashes anything proves nothing: every point breaks, in every way, and every end is reached."""
    hits: set[str] = set()
    ends: set[ExitKind] = set()
    terms = []

    def look(world: World) -> None:
        hits.update(world.faults.hits)
        ends.update(run.exit.kind for job in world.stored() for run in job.status.runs if run.exit is not None)
        terms.append(world.epochs.read())

    assert run(5, 20_000, each=look) is None
    assert set(POINTS) == {hit.partition(":")[0] for hit in hits}
    assert {str(mode) for mode in Mode} == {hit.partition(": ")[2] for hit in hits}
    assert set(ExitKind) == ends
    assert max(terms) > 5


def test_every_kind_of_action_can_be_drawn_and_played() -> None:
    """A kind that is spelled wrong would fail only where it is drawn."""
    assert all(hasattr(World, f"_{kind}") for kind in (*DAILY, *MISHAPS, "arm"))


class ReleasesEarly(Scheduler):
    def _tell(self, name: str, command: Command) -> None:
        super()._tell(name, command)
        if isinstance(command, Kill):
            self.ledger.release(command.run)


def test_a_failure_shrinks_to_a_short_list_of_actions_that_fails_in_the_same_way() -> None:
    """A history of 250 steps explains nothing to anybody."""
    broken = Make(scheduler=ReleasesEarly)
    failure = run(1, 20_000, broken)
    assert failure is not None
    short = shrink(failure, broken)
    assert len(short.actions) < min(25, len(failure.actions))
    assert isinstance(short.error, BrokenError)
    assert play(short.episode, short.actions, broken)[1] is not None
