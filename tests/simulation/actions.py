"""What may happen next, as data: a run is a list of actions, so that it can be replayed, cut short and shrunk.

An action's numbers mean "the n-th of what there is now": an action makes sense wherever it stands in a list.
"""

from __future__ import annotations

import random

from attrs import frozen

from tests.simulation.faults import DEADLY, PLAIN, Fault, Mode


@frozen
class Action:
    kind: str
    a: int = 0
    b: int = 0
    fault: Fault | None = None

    def __str__(self) -> str:
        return f"{self.kind}({self.a}, {self.b})" + (f" [{self.fault}]" if self.fault is not None else "")


DAILY = {
    "submit": 8,
    "again": 2,
    "cancel": 2,
    "touch": 1,
    "watch": 6,
    "events": 12,
    "round": 14,
    "poll": 12,
    "deliver": 12,
    "settle": 6,
    "tick": 3,
    "work": 16,
    "time": 8,
    "beat": 6,
    "start": 2,
}
MISHAPS = {
    "long": 1,
    "jump": 1,
    "kill_agent": 1,
    "start_agent": 2,
    "kill_process": 1,
    "power_off": 1,
    "power_on": 2,
    "cut": 1,
    "mend": 2,
    "down": 1,
    "up": 3,
    "crash": 1,
    "takeover": 1,
    "wake": 4,
    "resume": 2,
    "late": 2,
    "drain": 1,
    "gone": 1,
    "owner": 1,
}
WITH_FAULTS = frozenset({"submit", "again", "cancel", "round", "events", "poll", "deliver", "settle", "tick", "start", "wake", "beat"})


@frozen
class Mood:
    """Of one episode: how often each thing happens. faults: of an operation's I/O, per mille."""

    weights: dict[str, int]
    faults: int
    modes: tuple[Mode, ...]

    @staticmethod
    def draw(source: random.Random) -> Mood:
        """Some episodes are calm, some have one kind of trouble, some have all of them."""
        trouble = {kind: weight for kind, weight in MISHAPS.items() if source.random() < 0.5}
        factor = source.choice((0, 1, 1, 2, 4))
        weights = {kind: weight * 4 for kind, weight in DAILY.items()} | {kind: weight * factor for kind, weight in trouble.items()}
        modes = tuple(mode for mode in (*PLAIN, *DEADLY, Mode.PAUSE) if source.random() < 0.6)
        return Mood(weights, source.choice((0, 30, 100, 250)) if modes else 0, modes)


def draw(source: random.Random, mood: Mood, count: int) -> list[Action]:
    kinds, weights = list(mood.weights), list(mood.weights.values())
    made = []
    for kind in source.choices(kinds, weights, k=count):
        fault = None
        if kind in WITH_FAULTS and source.randrange(1000) < mood.faults:
            fault = Fault(source.choice((1, 1, 2, 2, 3, 4, 5, 6, 8, 12)), source.choice(mood.modes))
        made.append(Action(kind, source.randrange(1 << 16), source.randrange(1 << 16), fault))
    return made
