"""What a run costs depends on its price and on how long it ran: on nothing else, least of all on when it was asked."""

from hypothesis import given
from hypothesis import strategies as st

from core.charges import cost, totals
from core.pricing import hold, rate
from ports.credits import PLATFORM
from ports.tariffs import PPM, Price, PriceLine
from ports.units import Credits, Rate, Span

RATES = st.builds(Rate, st.integers(0, 10**13), st.integers(1, 10**7))
LINES = st.builds(PriceLine, st.sampled_from(["org", "provider:a", "provider:b"]), RATES, st.integers(0, PPM))
PRICES = st.builds(Price, st.just(1), st.lists(LINES, max_size=3, unique_by=lambda line: line.owner).map(tuple))
RAN = st.integers(0, 10**10).map(Span)


@given(PRICES, RAN)
def test_what_is_earned_is_what_is_owed(price: Price, ran: Span) -> None:
    """A micro-credit that appears or vanishes in a split would break the journal's sum of zero."""
    assert cost(price, ran) == sum(totals(price, ran).values(), Credits(0))


@given(PRICES, RAN, RAN)
def test_totals_never_fall_as_the_run_goes_on(price: Price, first: Span, more: Span) -> None:
    """The credit service refuses a later total that is lower: each account's has to be monotone, not only the sum."""
    early, late = totals(price, first), totals(price, first + more)
    assert all(late[account] >= amount for account, amount in early.items())


@given(PRICES, st.lists(RAN, min_size=1, max_size=20))
def test_any_ticks_in_any_order_post_the_closed_form(price: Price, ticks: list[Span]) -> None:
    """Billers die, come back and overlap: the service keeps the highest total, and that has to be the bill."""
    posted: dict[str, Credits] = {}
    seen = Span(-1)
    for ran in ticks:
        if ran > seen:
            posted, seen = posted | totals(price, ran), ran
    assert totals(price, max(ticks)) == posted


@given(PRICES, RAN)
def test_a_cost_is_one_floor_per_owner(price: Price, ran: Span) -> None:
    """The user never pays more than the exact price, and loses less than a micro-credit per owner by rounding."""
    exact = rate(price).fraction * ran.ms / 3_600_000
    assert 0 <= exact - cost(price, ran).micro < max(1, len(price.lines))


@given(PRICES, RAN)
def test_a_hold_covers_what_that_time_costs(price: Price, ran: Span) -> None:
    """A hold below the cost of the preflight time would let a user start what he can't pay."""
    assert hold(rate(price), ran) >= cost(price, ran)


@given(PRICES, RAN)
def test_the_platform_gets_what_the_payees_do_not(price: Price, ran: Span) -> None:
    """The payee's floor comes first and the platform takes the remainder: a payee's share is never rounded up."""
    payees = sum(line.rate.prorate_floor(ran).micro * (PPM - line.fee_ppm) // PPM for line in price.lines)
    assert cost(price, ran).micro - payees == totals(price, ran).get(PLATFORM, Credits(0)).micro
