"""First come, first served: whoever comes later changes nothing for those before him, on the whole way through the house."""

from __future__ import annotations

import random

import pytest
from attrs import evolve, frozen

from core.callers import Caller, Plan
from ports.cluster import ReportState
from ports.workloads import TERMINAL, Exit, ExitKind, Phase, Placement
from tests.simulation.actions import Action
from tests.simulation.stage import Stage
from tests.simulation.world import GB, TERMS, Row

FLEET: tuple[Row, ...] = (
    ("n0", "org", "A100", 40 * GB, 2),
    ("n1", "org", "L4", 24 * GB, 1),
    ("n2", "provider:zoe", "A100", 40 * GB, 1),
    ("n3", "provider:acme", "L4", 24 * GB, 1),
)
CASES, JOBS, TURNS = 25, 9, 60
FREE_OF_CHARGE = evolve(TERMS, credits_enabled=False)


@frozen
class Wish:
    """What somebody hands in. at: in which turn. lasts: for how many turns its code runs."""

    at: int
    lasts: int
    gb: int
    plan: Plan
    model: str | None
    gpus: int
    exclusive: bool


def wishes(source: random.Random) -> list[Wish]:
    made = []
    for _ in range(JOBS):
        model = source.choice((None, None, "A100", "L4"))
        gb = source.choice((4, 8, 12, 20, 24)) if model == "L4" else source.choice((4, 8, 12, 20, 24, 32, 40))
        gpus = 2 if model != "L4" and gb > 4 and source.random() < 0.2 else 1
        plan = source.choice((Plan.FREE, Plan.PAID))
        made.append(Wish(source.randrange(12), source.randrange(1, 6), gb, plan, model, gpus, source.random() < 0.15))
    return sorted(made, key=lambda wish: wish.at)


def history(given: list[Wish]) -> list[tuple[int, Placement]]:
    """In which turn each is placed, and where."""
    stage = Stage(FLEET, FREE_OF_CHARGE)
    callers = {plan: stage.user(f"user-{plan}", plan=plan) for plan in Plan}
    names: list[str] = []
    placed: dict[str, tuple[int, Placement]] = {}
    began: dict[str, int] = {}
    for turn in range(TURNS):
        for wish in (each for each in given if each.at == turn):
            stage.clock.ms += 1
            names.append(stage.submitted(wish.gb, callers[wish.plan], model=wish.model, gpus=wish.gpus, exclusive=wish.exclusive))
        stage.clock.ms += 1_000
        stage._beat(Action("beat"))
        for name, wish in zip(names, given, strict=False):
            run = stage.job(name).status.run
            if run is None:
                continue
            placed.setdefault(name, (turn, run.placement))
            found = stage.machines[run.placement[0].node].runs.get(run.id)
            if found is not None and found.state is ReportState.PREPARING:
                stage.ready(name)
            elif found is not None and found.state is ReportState.RUNNING and turn - began.setdefault(name, turn) >= wish.lasts:
                stage.machines[run.placement[0].node].finish(run.id, Exit(ExitKind.RETURNED))
            stage.uploaded(name)
    assert all(stage.phase(name) in TERMINAL for name in names), "somebody waits for ever"
    return [placed[name] for name in names]


@pytest.mark.parametrize("case", range(CASES))
def test_nobody_is_delayed_or_moved_by_those_who_come_after_him(case: int) -> None:
    """With and without them, he gets the same GPUs at the same time."""
    given = wishes(random.Random(case))
    everybody = history(given)
    for count in range(1, JOBS):
        assert everybody[:count] == history(given[:count]), f"the first {count} of {given}"


def test_some_of_these_histories_have_somebody_overtake_and_somebody_wait() -> None:
    """Else the property above would be about an empty queue."""
    waits = overtakes = 0
    for case in range(CASES):
        given = wishes(random.Random(case))
        turns = [turn for turn, _ in history(given)]
        waits += sum(turn > wish.at + 1 for turn, wish in zip(turns, given, strict=True))
        overtakes += sum(turns[later] < turns[earlier] for later in range(JOBS) for earlier in range(later))
    assert waits > CASES
    assert overtakes > CASES


# ---------------------------------------------------------------- the last gigabyte


CLIENTS = 200


def last_gigabyte(seed: int) -> None:
    """Two hundred want the last GB of the fleet, in any order, while the scheduler works; it dies on the way now and then."""
    source = random.Random(seed)
    stage = Stage((("n0", "org", "A100", 40 * GB, 1),), FREE_OF_CHARGE)
    stage.running(39)
    names: list[str] = []
    while len(names) < CLIENTS:
        if source.random() < 0.1:
            stage._crash(Action("crash"))
            stage._begin()
        for _ in range(source.randrange(1, 40)):
            if len(names) < CLIENTS:
                stage.clock.ms += source.randrange(3)
                names.append(stage.submitted(1, Caller(source.choice(("ann", "bob")))))
        if source.random() < 0.5:
            stage._beat(Action("beat"))
    for _ in range(3):
        stage._beat(Action("beat"))
    placed = [name for name in names if stage.phase(name) is not Phase.PENDING]
    assert 1 == len(placed)
    assert 0 == stage.free("n0")
    first = min((stage.job(name) for name in names), key=lambda job: (job.created_at, job.id))
    assert stage.job(placed[0]).created_at >= first.created_at


@pytest.mark.parametrize("seed", range(20))
def test_of_two_hundred_who_want_the_last_gigabyte_one_gets_it(seed: int) -> None:
    last_gigabyte(seed)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_of_two_hundred_who_want_the_last_gigabyte_one_gets_it_a_thousand_times() -> None:
    for seed in range(1_000):
        last_gigabyte(seed)
