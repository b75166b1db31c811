"""The fleet of a simulation: a part of a list, some of it rented, some added."""

from __future__ import annotations

from collections import Counter

from core.simulation.trace import Machine
from ports.units import Mib
from runtimes.sim.fleets import added, part, rented

LIST = tuple(Machine(f"n{at:03}", "G2" if at % 4 else "T4", 8 if at % 4 else 2, Mib(20_000)) for at in range(400))


def test_a_part_of_a_fleet_is_made_as_the_whole_is() -> None:
    """Else a small fleet would be all of one model by chance."""
    kept = part(LIST, 0.1)
    assert {"G2": 30, "T4": 10} == Counter(each.model for each in kept)
    assert set(kept) <= set(LIST)
    assert LIST == part(LIST, 1)


def test_providers_own_the_share_of_gpus_that_was_asked_for() -> None:
    """As near as whole nodes come to it, over several providers, and the same for one seed."""
    total = sum(each.gpus for each in LIST)
    for share in (0.0, 0.3, 1.0):
        fleet = rented(LIST, share, seed=1)
        theirs = sum(each.gpus for each in fleet if each.owner != "org")
        assert abs(theirs - share * total) <= 4
        assert fleet == rented(LIST, share, seed=1)
    assert 4 == len({each.owner for each in rented(LIST, 0.3, seed=1)} - {"org"})
    assert rented(LIST, 0.3, seed=1) != rented(LIST, 0.3, seed=2)


def test_nodes_are_added_as_they_are_written() -> None:
    """Of the trace's models, and of any other whose size is in its name."""
    made = added(["3xA10:provider:acme", "1x8xA100-80GB:org"])
    assert [("A10", 1, Mib(22_731), "provider:acme")] * 3 + [("A100-80GB", 8, Mib(81_920), "org")] == [
        (each.model, each.gpus, each.total, each.owner) for each in made
    ]
    assert 4 == len({each.name for each in made})
