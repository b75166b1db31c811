"""The protocol of `fill` and `churn`, on fleets small enough to know what must come out."""

import random
from collections import Counter

import pytest

from core.simulation.arrivals import Arrivals, wanted
from core.simulation.churn import churn
from core.simulation.fill import fill
from core.simulation.placing import LedgerPlacer
from core.simulation.trace import Machine, Pod, new_ledger
from ports.errors import Invalid
from ports.units import Mib
from ports.workloads import Ask

SMALL, LARGE = Machine("s", "S", 2, Mib(100)), Machine("l", "L", 1, Mib(1_000))


def test_an_arrival_draws_its_model_by_how_many_gpus_there_are() -> None:
    """A trace counts thousandths of a GPU: what they come to depends on the fleet."""
    arrivals, dice = Arrivals((SMALL, LARGE), (Pod(1, 455),)), random.Random(0)
    drawn = Counter(arrivals.any(dice) for _ in range(3_000))
    assert {Ask(Mib(46)), Ask(Mib(455))} == set(drawn)
    assert pytest.approx(2 / 3, abs=0.05) == drawn[Ask(Mib(46))] / 3_000
    assert pytest.approx((2 * 46 + 455) / 3) == arrivals.mean()


def test_several_gpus_are_asked_of_models_that_have_a_node_of_so_many() -> None:
    """Two GPUs of a model that comes one to a node would wait for ever."""
    assert Ask(Mib(100), 2, exclusive=True) == Arrivals((SMALL, LARGE), (Pod(2, 1000),)).any(random.Random(0))
    with pytest.raises(Invalid, match="3 GPUs"):
        Arrivals((SMALL, LARGE), (Pod(3, 1000),))


def test_a_row_that_names_models_is_bound_to_one_of_them() -> None:
    """It was written for that hardware."""
    assert Ask(Mib(500), model="L") == Arrivals((SMALL, LARGE), (Pod(1, 500, frozenset({"L"})),)).any(random.Random(0))
    with pytest.raises(Invalid, match="of X"):
        Arrivals((SMALL, LARGE), (Pod(1, 500, frozenset({"X"})),))


def test_every_row_arrives_once_before_any_arrives_again() -> None:
    """The first part of a fill is the trace itself, in another order."""
    pods = tuple(Pod(1, milli) for milli in range(10, 20))
    arrivals = Arrivals((Machine("n", "N", 1, Mib(1_000)),), pods)
    asks = [ask.mib.n for ask in arrivals.upto(1.0, random.Random(1))]
    assert [pod.milli for pod in pods] == sorted(asks[:10])
    assert [pod.milli for pod in pods] != asks[:10]
    assert sum(asks[:-1]) < 1_000 <= sum(asks)


def test_fill_counts_what_was_asked_for_not_what_was_booked() -> None:
    """A whole GPU of 1,000 given to an ask for 100 serves 100: the rest is lost, and has to show."""
    asks = [Ask(Mib(100), exclusive=True)] * 3 + [Ask(Mib(1_000))]
    found = fill(LedgerPlacer(new_ledger((SMALL, LARGE))), asks, 1_200, (0.25, 1.0, 2.0))
    assert (300 / 1_200, 300 / 1_200, 300 / 1_200) == found
    assert 1_300 == sum(map(wanted, asks))


@pytest.mark.parametrize(("load", "refused"), [(0.5, 1 / 3), (1.0, 1 / 2), (3.0, 3 / 4)])
def test_churn_of_one_gpu_is_erlangs_loss_formula(load: float, refused: float) -> None:
    """For one place it is known exactly: load / (1 + load) is refused, and as much of the time it is taken."""
    machines = (Machine("n", "N", 1, Mib(1_000)),)
    placer = LedgerPlacer(new_ledger(machines))
    found = churn(placer, Arrivals(machines, (Pod(1, 1000),)), load, random.Random(4), warm=10.0, measured=6_000.0)
    assert pytest.approx(refused, abs=0.03) == found.refused
    assert pytest.approx(refused, abs=0.03) == found.allocated
    assert pytest.approx(load * 6_000, rel=0.05) == found.arrivals
