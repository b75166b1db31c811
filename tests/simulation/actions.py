"""What may happen next, as data: a run is a list of actions, so that it can be replayed, cut short and shrunk.

An action's numbers mean "the n-th of what there is now": an action makes sense wherever it stands in a list.
"""

from __future__ import annotations

import random

from attrs import frozen

from tests.simulation.faults import POINTS, Fault, Mode


@frozen
class Action:
    """fault: of an action `arm` only."""

    kind: str
    a: int = 0
    b: int = 0
    fault: Fault | None = None

    def __str__(self) -> str:
        return f"arm {self.fault}" if self.fault is not None else f"{self.kind}({self.a}, {self.b})"


DAILY = {
    "submit": 9,
    "again": 2,
    "cancel": 2,
    "touch": 1,
    "watch": 4,
    "events": 8,
    "round": 10,
    "poll": 8,
    "deliver": 8,
    "settle": 6,
    "tick": 3,
    "work": 16,
    "time": 6,
    "beat": 10,
    "start": 3,
}
MISHAPS = {
    "wait": 2,
    "long": 2,
    "jump": 1,
    "kill_agent": 2,
    "start_agent": 4,
    "kill_process": 2,
    "power_off": 2,
    "power_on": 4,
    "cut": 2,
    "mend": 3,
    "down": 1,
    "up": 4,
    "crash": 1,
    "takeover": 1,
    "wake": 5,
    "resume": 3,
    "late": 2,
    "drain": 1,
    "gone": 2,
    "owner": 1,
    "archive": 4,
    "amend": 4,
}


@frozen
class Mood:
    """Of one episode: how often each thing happens, and how what is armed breaks."""

    weights: dict[str, int]
    modes: tuple[Mode, ...]

    @staticmethod
    def draw(source: random.Random) -> Mood:
        """Some episodes are calm, some have one kind of trouble, some have all of them."""
        trouble = {kind: weight for kind, weight in MISHAPS.items() if source.random() < 0.5}
        factor = source.choice((0, 1, 1, 2, 3))
        modes = tuple(mode for mode in Mode if source.random() < 0.6)
        weights = {kind: weight * 4 for kind, weight in DAILY.items()} | {kind: weight * factor for kind, weight in trouble.items()}
        weights["arm"] = source.choice((0, 15, 30, 60)) if modes else 0
        return Mood(weights, modes)

    @staticmethod
    def of(arms: int, modes: tuple[Mode, ...], **trouble: int) -> Mood:
        """With that trouble, and daily work."""
        return Mood({kind: weight * 4 for kind, weight in DAILY.items()} | trouble | {"arm": arms}, modes)


def draw(source: random.Random, mood: Mood, count: int) -> list[Action]:
    kinds, weights = list(mood.weights), list(mood.weights.values())
    made = [Action("start")]
    for kind in source.choices(kinds, weights, k=count - 1):
        fault = Fault(source.choice(POINTS), source.choice(mood.modes)) if kind == "arm" else None
        made.append(Action(kind, source.randrange(1 << 16), source.randrange(1 << 16), fault))
    return made
