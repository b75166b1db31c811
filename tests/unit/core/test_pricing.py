"""Prices by the tariff: the formula, own rates, base_rate, and the dearest that an ask can cost."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.charges import cost, totals
from core.fleet import GpuView, LedgerView, NodeView
from core.owners import ORG_POOL, PROVIDERS_POOL, Pool
from core.packing import NoRoom, best_fit
from core.pricing import dearest, hold, price, rate
from ports.nodes import Gpu
from ports.tariffs import PriceLine, Splits, Tariff
from ports.units import MICRO, Credits, Instant, Mib, Rate, Span
from ports.workloads import Ask, Slot

HOUR = Span.of(hours=1)
GB = 1024


def tariff(
    base: int = 0,
    vram: int = MICRO,
    org: dict[str, int] | None = None,
    providers: dict[str, dict[str, int]] | None = None,
    fee_ppm: int = 0,
) -> Tariff:
    return Tariff(7, Instant(0), base, vram, org or {}, providers or {}, Splits(fee_ppm))


def node(name: str, owner: str, *gpus: tuple[str, int]) -> NodeView:
    views = [GpuView(Gpu(at, model, "nv", Mib(mib)), Mib(0), Mib(0), Mib(mib)) for at, (model, mib) in enumerate(gpus)]
    return NodeView(name, owner, False, tuple(views))


def fleet(*nodes: NodeView) -> LedgerView:
    return LedgerView({each.name: each for each in nodes})


FLEET = fleet(
    node("o", "org", ("A", 80 * GB), ("A", 80 * GB), ("B", 24 * GB)),
    node("p", "provider:acme", ("A", 80 * GB), ("B", 24 * GB)),
    node("q", "provider:zoe", ("A", 80 * GB)),
)


def per_hour(given: Tariff, *slots: tuple[str, int, int], user: str = "ann") -> dict[str, Fraction]:
    priced = price(tuple(Slot(name, gpu, Mib(mib)) for name, gpu, mib in slots), FLEET, given, user)
    return {line.owner: line.rate.fraction for line in priced.lines}


def test_eight_gb_for_an_hour_are_eight_credits_by_default() -> None:
    """The example that every document gives."""
    priced = price((Slot("o", 0, Mib(8 * GB)),), FLEET, tariff(), "ann")
    assert Credits(8 * MICRO) == cost(priced, HOUR) == hold(rate(priced), HOUR)
    assert {"org": Credits(8 * MICRO)} == totals(priced, HOUR)
    assert 7 == priced.tariff


def test_base_rate_is_charged_once_per_run() -> None:
    """It is the price of a run, not of a GPU."""
    assert {"org": Fraction(100 + 2 * 3 * GB)} == per_hour(tariff(100, 3 * GB), ("o", 0, GB), ("o", 1, GB))


def test_a_fraction_of_a_gb_is_priced_exactly() -> None:
    """Rounding per slot would make many small slots cheaper or dearer than one large."""
    assert {"org": Fraction(1001 * MICRO, 1024)} == per_hour(tariff(), ("o", 0, 1001))


def test_orgs_own_rate_of_a_model_replaces_the_formula_for_the_booked_share() -> None:
    """Half of a GPU costs half of its rate, and no base_rate where nothing is priced by the formula."""
    assert {"org": Fraction(500)} == per_hour(tariff(base=99, org={"A": 1000}), ("o", 0, 40 * GB))


def test_a_rate_of_zero_that_was_given_is_zero() -> None:
    """Given away is not the same as not priced."""
    assert {"org": Fraction(0)} == per_hour(tariff(base=99, org={"A": 0}), ("o", 0, 40 * GB))
    assert {"provider:acme": Fraction(0)} == per_hour(tariff(base=99, providers={"provider:acme": {"A": 0}}), ("p", 0, 40 * GB))


@pytest.mark.parametrize("key", ["provider:acme", "acme"])
def test_a_providers_rate_counts_for_his_hardware_only(key: str) -> None:
    """Each provider has a price list of his own; without one it is org's formula, not org's rate of the model."""
    given = tariff(org={"A": 1}, providers={key: {"A": 1600}})
    assert {"provider:acme": Fraction(400)} == per_hour(given, ("p", 0, 20 * GB))
    assert {"provider:zoe": Fraction(20 * MICRO)} == per_hour(given, ("q", 0, 20 * GB))


def test_base_rate_is_shared_by_the_owners_whose_slots_the_formula_prices() -> None:
    """A run over several owners pays it once; each earns it by his MiB among those slots."""
    given = tariff(base=100, vram=0, org={"B": 7})
    assert {"org": Fraction(25) + 7, "provider:acme": Fraction(75)} == per_hour(given, ("o", 0, GB), ("o", 2, 24 * GB), ("p", 0, 3 * GB))


def test_nobody_rents_from_himself() -> None:
    """Own hardware makes no line: nothing is billed, and no fee is taken."""
    assert {} == per_hour(tariff(base=100), ("p", 0, GB), user="acme")
    assert {"provider:zoe": Fraction(100 + MICRO)} == per_hour(tariff(base=100), ("p", 0, GB), ("q", 0, GB), user="acme")


def test_the_fee_is_written_with_the_price() -> None:
    """A later tariff must not change the split of a run that has begun."""
    priced = price((Slot("p", 0, Mib(GB)),), FLEET, tariff(fee_ppm=250_000), "ann")
    assert (PriceLine("provider:acme", Rate(MICRO), 250_000),) == priced.lines
    assert {"provider:acme": Credits(750_000), "platform": Credits(250_000)} == totals(priced, HOUR)


def test_dearest_of_an_empty_fleet_is_the_formula() -> None:
    """A job may be submitted before the first node has joined: its hold still has to mean something."""
    assert Rate(5 + 2 * 8 * MICRO) == dearest(Ask(Mib(8 * GB), 2), (PROVIDERS_POOL, ORG_POOL), fleet(), tariff(base=5))


def test_dearest_looks_at_the_pools_of_the_ask_only() -> None:
    """Who may not use a provider must not hold credits for his prices."""
    given, ask = tariff(providers={"acme": {"A": 10**12}}), Ask(Mib(8 * GB))
    assert Rate(8 * MICRO) == dearest(ask, (ORG_POOL,), FLEET, given)
    assert Rate(10**11) == dearest(ask, (PROVIDERS_POOL, ORG_POOL), FLEET, given)
    assert Rate(8 * MICRO) == dearest(Ask(Mib(8 * GB), model="B"), (PROVIDERS_POOL, ORG_POOL), FLEET, given)


def test_dearest_of_an_exclusive_ask_is_for_whole_gpus() -> None:
    """An exclusive ask for 1 GB takes all 80."""
    assert Rate(80 * MICRO) == dearest(Ask(Mib(GB), exclusive=True), (ORG_POOL,), FLEET, tariff())


def test_self_host_holds_nothing() -> None:
    """It is not billed, so nothing is set aside."""
    assert Rate(0) == dearest(Ask(Mib(GB), owner="self_host"), (Pool("provider:acme"),), FLEET, tariff(base=5))


RATES = st.dictionaries(st.sampled_from(["A", "B"]), st.integers(0, 10**8))
TARIFFS = st.builds(
    tariff,
    st.integers(0, 10**7),
    st.integers(0, 10**7),
    RATES,
    st.dictionaries(st.sampled_from(["acme", "zoe"]), RATES),
)
ASKS = st.builds(
    Ask,
    st.integers(1, 80 * GB).map(Mib),
    gpus=st.integers(1, 2),
    workers=st.integers(1, 2),
    model=st.sampled_from([None, "A", "B"]),
    exclusive=st.booleans(),
)


@given(TARIFFS, ASKS, st.sampled_from([(ORG_POOL,), (PROVIDERS_POOL,), (PROVIDERS_POOL, ORG_POOL)]))
def test_no_placement_costs_more_than_the_dearest(given_tariff: Tariff, ask: Ask, pools: tuple[Pool, ...]) -> None:
    """The hold is made of it: a placement that cost more would run on credits that nobody set aside."""
    placed = best_fit(FLEET, ask, pools)
    if not isinstance(placed, NoRoom):
        assert rate(price(placed, FLEET, given_tariff, "ann")).fraction <= dearest(ask, pools, FLEET, given_tariff).fraction
