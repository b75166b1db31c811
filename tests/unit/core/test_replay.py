"""The replay and its figures, on cases small enough to be reckoned by hand."""

from __future__ import annotations

import pytest

from core.simulation.figures import figures, quantile
from core.simulation.history import booked_at, busiest, earnings
from core.simulation.replay import replay
from core.simulation.submissions import Replayed, Submission
from core.simulation.trace import Machine, new_ledger
from ports.errors import Invalid
from ports.tariffs import Splits, Tariff
from ports.units import Credits, Instant, Mib, Span
from ports.workloads import Ask, Slot

HOUR = 3_600_000
TARIFF = Tariff(1, Instant(0), 0, 1_000_000, {"A": 3_000_000}, {"provider:acme": {"A": 2_000_000}}, Splits(100_000))
ORG, ACME = Machine("org-0", "A", 1, Mib(1000)), Machine("acme-0", "A", 1, Mib(1000), "provider:acme")


def job(name: str, at: int, *, ran: int = HOUR, mib: int = 1000, plan: str = "free", owner: str | None = None) -> Submission:
    return Submission(name, Instant(at), Span(ran), Ask(Mib(mib), owner=owner), "ann", plan)


def played(*jobs: Submission, machines: tuple[Machine, ...] = (ORG,)) -> Replayed:
    return replay(new_ledger(machines), jobs, TARIFF)


def test_a_job_waits_exactly_until_the_one_before_it_ends() -> None:
    """The wait is the figure that people plan by."""
    found = played(job("a", 0), job("b", 10))
    assert [Span(0), Span(HOUR - 10)] == [each.waited for each in found.outcomes]
    assert Instant(2 * HOUR) == found.outcomes[1].ended_at


def test_an_end_makes_room_for_a_job_that_comes_at_the_same_instant() -> None:
    """Else a trace in whole seconds would show waits that nobody had."""
    assert Span(0) == played(job("a", 0), job("b", HOUR)).outcomes[1].waited


def test_jobs_are_served_by_age_whatever_the_order_in_which_they_are_given() -> None:
    """A trace need not be sorted."""
    found = played(job("b", 10), job("c", 20), job("a", 0))
    assert ["a", "b", "c"] == [each.submission.id for each in found.outcomes]
    assert sorted(each.booked_at or Instant(-1) for each in found.outcomes) == [each.booked_at for each in found.outcomes]


def test_what_no_machine_could_hold_is_refused_at_once_and_delays_nobody() -> None:
    """As submit refuses it."""
    found = played(job("huge", 0, mib=1001), job("a", 1))
    assert "the most per GPU in this shape is 1000 MiB" in found.outcomes[0].refusal
    assert Span(0) == found.outcomes[1].waited
    assert 1 == figures(found).refused


def test_a_free_user_who_asks_for_a_provider_is_refused() -> None:
    """The owner policy is production's own."""
    found = played(job("a", 0, owner="provider"), machines=(ORG, ACME))
    assert "free plan" in found.outcomes[0].refusal


def test_paid_jobs_take_providers_hardware_first_and_pay_its_rate() -> None:
    """Revenue follows from who is placed where."""
    found = played(job("a", 0, plan="paid"), machines=(ORG, ACME))
    assert (Slot("acme-0", 0, Mib(1000)),) == found.outcomes[0].placement
    assert {"provider:acme": Credits(1_800_000), "platform": Credits(200_000)} == found.outcomes[0].earned()


def test_figures_of_two_jobs_on_one_gpu() -> None:
    """Reckoned by hand: the second comes after a quarter of an hour, and that is the time in which jobs came."""
    found = figures(played(job("a", 0, mib=500), job("b", HOUR // 4, mib=1000)))
    assert (2, 0, 1) == (found.jobs, found.refused, found.waited)
    assert (0.5, 1.0) == (found.allocated, found.peak)
    assert (0.0, 1) == (found.queue_mean, found.queue_peak)
    assert (Span(0), Span(HOUR * 3 // 4)) == (found.wait_p50, found.wait_p99)
    assert Credits(4_500_000) == found.revenue.total
    assert (Credits(4_050_000), Credits(450_000)) == (found.revenue.org, found.revenue.platform)


def test_a_quantile_is_the_wait_of_some_job() -> None:
    """Nearest rank, no interpolation: the p99 of few jobs is the longest."""
    waits = [1, 2, 3, 4]
    assert [Span(1), Span(2), Span(4)] == [quantile(waits, per_cent) for per_cent in (1, 50, 99)]
    assert Span(0) == quantile([], 50)


def test_history_shows_what_was_booked_and_earned_at_an_instant() -> None:
    """The map and the revenue curve are drawn from it."""
    found = played(job("a", 0, mib=400), job("b", 10, mib=300))
    moment = busiest(found)
    assert moment is not None
    assert (Instant(10), 700) == (moment.at, moment.booked)
    assert {("org-0", 0): Mib(700)} == booked_at(found, moment.at)
    assert {} == booked_at(found, Instant(2 * HOUR))
    before, half, end = earnings(found, [Instant(0), Instant(HOUR // 2), Instant(2 * HOUR)])
    assert Credits(0) == before.total
    assert Credits(600_000 + 3_000_000 * 300 * (HOUR // 2 - 10) // 1000 // HOUR) == half.total
    assert Credits(1_200_000 + 900_000) == end.total


def test_two_submissions_of_one_id_are_refused() -> None:
    """Their outcomes could not be told apart."""
    with pytest.raises(Invalid, match="same id"):
        played(job("a", 0), job("a", 1))


def test_a_replay_of_nothing_gives_figures_of_nothing() -> None:
    """An empty selection is no crash."""
    assert (0, 0.0, Span(0)) == ((found := figures(played())).jobs, found.allocated, found.wait_max)


def test_progress_never_tells_more_than_two_events_per_job() -> None:
    """A bar is sized by it."""
    told: list[int] = []
    replay(new_ledger((ORG,)), [job(f"{at:04}", at, ran=1) for at in range(500)], TARIFF, told.append)
    assert told == sorted(told)
    assert 800 < told[-1] <= 1000
