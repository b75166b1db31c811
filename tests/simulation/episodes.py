"""Episodes: a fresh world, some hundred actions drawn from a seed, then faults stop and everything must come to rest.

A failure is an episode's name and its actions; they replay exactly, and `shrink` looks for a shorter list that fails
in the same way.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from attrs import frozen

from core.schedule import Scheduler
from tests.simulation.actions import Action, Mood, draw
from tests.simulation.invariants import check, check_at_rest
from tests.simulation.machines import Machine
from tests.simulation.world import World

LENGTH = 250  # actions of an episode
ROUNDS = 400  # in which all must have come to rest after the last fault


@frozen
class Make:
    """What an episode is made of; a test puts broken things in their place."""

    scheduler: type[Scheduler] = Scheduler
    machine: type[Machine] = Machine


SOUND = Make()


@frozen
class Failure:
    """episode: "<seed>/<number>". kind: of the error, for telling whether a shorter list fails in the same way."""

    episode: str
    actions: tuple[Action, ...]
    error: BaseException

    @property
    def kind(self) -> str:
        return type(self.error).__name__

    def __str__(self) -> str:
        return f"episode {self.episode}, {len(self.actions)} actions: {self.kind}: {self.error}"


def actions_of(episode: str, mood: Mood | None = None) -> tuple[Action, ...]:
    source = random.Random(episode)
    return tuple(draw(source, mood or Mood.draw(source), LENGTH))


def play(
    episode: str, actions: Sequence[Action], make: Make = SOUND, tell: Callable[[str], None] | None = None
) -> tuple[World, Failure | None]:
    """The world as it came to rest, or as it broke."""
    world = World(episode, make.scheduler, tell, make.machine)
    done: list[Action] = []
    try:
        for action in actions:
            done.append(action)
            world.step(action)
            check(world)
        world.calm()
        check(world)
        for _ in range(ROUNDS):
            world.beat()
            check(world)
            world.cancel_hopeless()
            if not world.live_jobs() and not any(machine.runs for machine in world.machines.values()):
                break
        for _ in range(3):
            world.beat()
        check_at_rest(world)
    except Exception as error:
        return world, Failure(episode, tuple(done), error)
    finally:
        world.bury()
    return world, None


def run(seed: int, steps: int, make: Make = SOUND, each: Callable[[World], None] | None = None, mood: Mood | None = None) -> Failure | None:
    """Episodes of that seed until so many actions are done; the first failure, if there is one. mood: of all of them."""
    for number in range(-(-steps // LENGTH)):
        episode = f"{seed}/{number}"
        world, failure = play(episode, actions_of(episode, mood), make)
        if failure is not None:
            return failure
        if each is not None:
            each(world)
    return None


def shrink(failure: Failure, make: Make = SOUND, tries: int = 600) -> Failure:
    """Delta debugging: leave out ever smaller pieces, as long as it fails in the same way."""
    best, size = failure, max(1, len(failure.actions) // 2)
    while size and tries > 0:
        at, cut = 0, False
        while at < len(best.actions) and tries > 0:
            tries -= 1
            shorter = best.actions[:at] + best.actions[at + size :]
            _, found = play(failure.episode, shorter, make)
            if found is not None and found.kind == best.kind and _alike(found, best):
                best, cut = found, True
            else:
                at += size
        if not cut or size > 1:
            size = size // 2 if size > 1 else (1 if cut else 0)
    return best


def _alike(one: Failure, other: Failure) -> bool:
    """Whether two failures say the same, names and numbers aside."""

    def words(failure: Failure) -> list[str]:
        return [word for word in str(failure.error).split() if word.isalpha()][:4]

    return words(one) == words(other)
