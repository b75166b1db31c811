"""A cap on what a job may cost: the agent ends it by its own clock, and its user is told at 50, 80 and 100 per cent."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from core.callers import Caller
from core.charges import cost
from core.inventory import Fleet, fold
from core.outlook import money_ends
from core.tick import tick
from ports.budgets import bound, lasts, step
from ports.cluster import Go
from ports.credits import user_account
from ports.months import Month
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Rate, Span
from ports.workloads import BUDGET, Exit, ExitKind, Job, Phase, Run
from tests.simulation.actions import Action
from tests.simulation.stage import Stage

CAP = Credits(1_000_000)
RATES = st.builds(Rate, st.integers(0, 10**13), st.integers(1, 10**7))
PRICES = st.lists(st.builds(PriceLine, st.just("org"), RATES), max_size=3).map(lambda lines: Price(1, tuple(lines)))


@given(PRICES, st.integers(0, 10**12).map(Credits))
def test_a_run_that_lasts_as_long_as_its_cap_costs_no_more(price: Price, cap: Credits) -> None:
    """And nearly as much: a cap that ends it early would be another cap."""
    longest = lasts(price, cap)
    if longest is None:
        assert Credits(0) == cost(price, Span(10**12))
        return
    assert cost(price, longest) <= cap
    exact = sum(line.rate.fraction for line in price.lines)
    assert exact * (longest.ms + 1) > cap.micro * 3_600_000


def test_steps_of_a_cap() -> None:
    """Each is reached at its very micro-credit."""
    spent = (0, 49, 50, 79, 80, 99, 100, 1_000)
    assert [0, 0, 50, 50, 80, 80, 100, 100] == [step(Credits(each), Credits(100)) for each in spent]


def capped(stage: Stage, cap: Credits = CAP) -> str:
    """A running job with that cap; on this stage 8 GB cost 57.000008 credits per hour."""
    made = stage.hand_in(Caller("ann"), evolve(stage.request(8), cap=cap)).job.id
    stage.rounds(2)
    stage.ready(made)
    stage.rounds(2)
    assert stage.phase(made) is Phase.RUNNING
    return made


def run_of(job: Job) -> Run:
    assert job.status.run is not None
    return job.status.run


def test_the_agent_is_told_how_long_it_may_last() -> None:
    """Whoever else is away, the cap holds."""
    stage = Stage()
    sent: list[Go] = []
    real = type(stage.term.scheduler)._tell_all

    def listening(self: object, nodes: object, command: object) -> None:
        sent.extend([command] if isinstance(command, Go) else [])
        real(self, nodes, command)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(stage.term.scheduler), "_tell_all", listening)
        job = stage.job(capped(stage))
    longest = lasts(run_of(job).price, CAP)
    assert longest is not None
    assert {longest} == {go.max_runtime for go in sent}
    assert longest == bound(evolve(job, spec=evolve(job.spec, max_runtime=longest + Span(1))))
    assert Span(5) == bound(evolve(job, spec=evolve(job.spec, max_runtime=Span(5))))


def test_a_job_that_its_cap_has_ended_says_so() -> None:
    """Not that its hours were used up."""
    stage = Stage()
    made = capped(stage)
    stage.clock.ms += 70_000
    stage.end(made, ExitKind.KILLED)
    stage.uploaded(made)
    stage.rounds(4)
    status = stage.job(made).status
    assert (Phase.FAILED, "BudgetExhausted") == (status.phase, status.reason)
    assert "1.000000 credits" in status.message


def test_a_user_is_told_once_at_each_step() -> None:
    """Before it is too late, and not every minute."""
    stage = Stage()
    made = capped(stage)
    told = []
    for ms in (20_000, 15_000, 1_000, 15_000, 15_000, 1_000):  # 57 credits per hour: 0.317, 0.554, …, 1.06
        stage.clock.ms += ms
        stage.rounds(2)
        told += [each.percent for each in tick(stage.house).caps]
    assert [50, 80, 100] == told
    condition = stage.job(made).status.condition(BUDGET)
    assert condition is not None
    assert "Spent100" == condition.reason


def test_a_short_job_says_at_its_end_how_much_of_its_cap_it_has_spent() -> None:
    """No billing round may have seen it."""
    stage = Stage()
    made = capped(stage)
    stage.clock.ms += 55_000
    stage.completed(made)
    condition = stage.job(made).status.condition(BUDGET)
    assert condition is not None
    assert (Phase.COMPLETED, "Spent80") == (stage.phase(made), condition.reason)


def outlook(stage: Stage) -> Fleet:
    return fold(stage.records.list(), stage.jobs.list().jobs)


def test_the_money_ends_with_the_cap_or_the_balance_whichever_is_sooner() -> None:
    """And everything of a user's that runs draws on his balance."""
    stage = Stage()
    made, other = capped(stage), stage.running(8)
    job, now = stage.job(made), stage.clock.now()
    longest = lasts(run_of(job).price, CAP)
    assert longest is not None
    ran = outlook(stage).ran(run_of(job))
    assert now + (longest - ran) == money_ends(job, outlook(stage), Credits(10**12), now)
    per_hour = 2 * 57_000_008
    assert now + Span(1_000 * 3_600_000 // per_hour) == money_ends(job, outlook(stage), Credits(1_000), now)
    assert now == money_ends(job, outlook(stage), Credits(-5), now)
    whole = evolve(job, spec=evolve(job.spec, cap=None))
    assert money_ends(whole, outlook(stage), Credits(10**15), now) is not None
    assert money_ends(whole, outlook(stage), Credits(2**63), now) is None, "in no year that can be shown"
    assert money_ends(stage.job(other), outlook(stage), None, now) is None
    stage.completed(made)
    assert money_ends(stage.job(made), outlook(stage), Credits(5), now) is None


def test_ticks_and_final_charge_of_a_capped_job_are_the_closed_form() -> None:
    """A cap ends a job; it never cuts a charge."""
    stage = Stage()
    made = capped(stage)
    stage.clock.ms += 90_000
    stage.rounds(2)
    stage._tick(Action("tick"))
    before = stage.money.account(user_account("ann")).balance
    stage.end(made, ExitKind.KILLED)
    stage.uploaded(made)
    stage.rounds(4)
    done = stage.job(made)
    assert cost(run_of(done).price, run_of(done).ran) == done.status.charged > CAP
    assert before == stage.money.account(user_account("ann")).balance


def test_at_the_users_cap_of_the_month_his_work_is_ended_and_he_is_told_on_the_way() -> None:
    """Also what he has only queued; others go on."""
    stage = Stage()
    made, waits = stage.running(8), stage.submitted(40, exclusive=True, gpus=2)
    stage.money.set_cap(user_account("ann"), CAP)
    told = []
    for ms in (20_000, 15_000, 16_000, 15_000):
        stage.clock.ms += ms
        stage.rounds(2)
        done = tick(stage.house)
        told += [each.percent for each in done.months]
    assert [50, 80, 100] == told
    assert done.flagged >= 1
    stage.rounds(2)
    stage.end(made, ExitKind.KILLED)
    stage.uploaded(made)
    stage.rounds(4)
    for job in (made, waits):
        status = stage.job(job).status
        assert (Phase.FAILED, "BudgetExhausted") == (status.phase, status.reason), status.message
        month = Month.of(stage.clock.now())
        assert f"its user's budget of {CAP} credits for {month} is used up; the balance is not." in status.message
        assert f"A new one begins on {month.next}-01 at 00:00 UTC." in status.message


def test_another_end_is_not_the_caps() -> None:
    """A function that raised has raised."""
    stage = Stage()
    made = capped(stage)
    stage.end(made, ExitKind.RAISED)
    stage.uploaded(made)
    stage.rounds(4)
    assert "BudgetExhausted" != stage.job(made).status.reason
    assert Exit(ExitKind.RAISED).kind is ExitKind.RAISED
