"""Replays of random small clusters: VRAM and money are conserved, and the queue is fair, whatever comes."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from core.fleet import GpuView, LedgerView, NodeView
from core.owners import PROVIDERS_POOL, may_use, pools
from core.packing import NoRoom, best_fit
from core.simulation.figures import figures, revenue
from core.simulation.history import booked_at
from core.simulation.replay import replay
from core.simulation.submissions import Outcome, Replayed, Submission
from core.simulation.trace import Machine, capacity, new_ledger
from ports.nodes import Gpu
from ports.tariffs import Splits, Tariff
from ports.units import Instant, Mib, Span
from ports.workloads import Ask

OWNERS = ("org", "org", "provider:a", "provider:b")
KINDS = (("A", 40), ("B", 48), ("B", 80))

asks = st.builds(
    Ask,
    st.sampled_from([7, 20, 30, 40, 48, 80, 81]).map(Mib),
    gpus=st.sampled_from([1, 1, 1, 2, 3]),
    workers=st.sampled_from([1, 1, 2]),
    model=st.sampled_from([None, None, "A", "B"]),
    owner=st.sampled_from([None, None, None, "org", "provider", "self_host"]),
    exclusive=st.booleans(),
)
fleets = st.lists(st.tuples(st.sampled_from(OWNERS), st.sampled_from(KINDS), st.integers(1, 3)), min_size=1, max_size=5).map(
    lambda nodes: tuple(Machine(f"n{at}", model, gpus, Mib(mib), owner) for at, (owner, (model, mib), gpus) in enumerate(nodes))
)
traces = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 40), asks, st.sampled_from(["a", "u"]), st.sampled_from(["free", "paid"])), max_size=25
).map(lambda rows: [Submission(f"j{at:02}", Instant(come), Span(ran), ask, *who) for at, (come, ran, ask, *who) in enumerate(rows)])
tariffs = st.builds(
    Tariff,
    st.just(1),
    st.just(Instant(0)),
    st.sampled_from([0, 7, 10**12]),
    st.sampled_from([0, 1, 10**12 + 7]),
    st.just({"A": 10**13 + 1}),
    st.just({"provider:a": {"B": 10**12 + 3}}),
    st.builds(Splits, st.sampled_from([0, 1, 333_333, 1_000_000])),
)


def placed(found: Replayed) -> list[Outcome]:
    return [each for each in found.outcomes if each.booked_at is not None]


def view(machines: tuple[Machine, ...], booked: dict[tuple[str, int], Mib]) -> LedgerView:
    def gpu(each: Machine, at: int) -> GpuView:
        used = booked.get((each.name, at), Mib(0))
        return GpuView(Gpu(at, each.model, each.vendor, each.total), used, Mib(0), each.total - used)

    nodes = (NodeView(each.name, each.owner, False, tuple(gpu(each, at) for at in range(each.gpus))) for each in machines)
    return LedgerView({node.name: node for node in nodes})


@given(fleets, traces, tariffs)
def test_every_job_is_placed_or_refused_and_no_gpu_is_ever_overbooked(
    machines: tuple[Machine, ...], jobs: list[Submission], tariff: Tariff
) -> None:
    """Conservation of jobs and of VRAM, told by the outcomes alone."""
    ledger = new_ledger(machines)
    found = replay(ledger, jobs, tariff)
    assert sorted(each.id for each in jobs) == sorted(each.submission.id for each in found.outcomes)
    assert all((each.booked_at is None) == bool(each.refusal) for each in found.outcomes)
    totals = {each.name: each.total for each in machines}
    for moment in found.moments:
        booked = booked_at(found, moment.at)
        assert all(mib <= totals[node] for (node, _), mib in booked.items())
        assert sum(mib.n for mib in booked.values()) == moment.booked
    assert 0 == found.moments[-1].booked if found.moments else not jobs
    assert capacity(machines) == found.fleet == sum(node.free.n for node in ledger.view().nodes.values())


def crowd(dice: random.Random) -> tuple[tuple[Machine, ...], list[Submission]]:
    """A small mixed fleet, and more jobs at a time than it can hold, some of them picky."""
    kinds = [(dice.choice(OWNERS), *dice.choice(KINDS)) for _ in range(4)]
    machines = tuple(Machine(f"n{at}", model, dice.randrange(1, 4), Mib(mib), owner) for at, (owner, model, mib) in enumerate(kinds))
    jobs = [
        Submission(
            f"j{at:02}",
            Instant(dice.randrange(30)),
            Span(dice.randrange(1, 20)),
            Ask(Mib(dice.choice((7, 20, 40, 48, 80))), dice.choice((1, 1, 2)), model=dice.choice((None, None, "A", "B"))),
            "u",
            dice.choice(("free", "paid")),
        )
        for at in range(30)
    ]
    return machines, jobs


def test_nobody_is_overtaken_on_a_gpu_that_he_could_have_used() -> None:
    """First come, first served: a later job passes one that goes on waiting only on GPUs that are of no use to that one."""
    passed = 0
    for seed in range(100):
        machines, jobs = crowd(random.Random(seed))
        found = placed(replay(new_ledger(machines), jobs, Tariff(1, Instant(0), 0, 1)))
        for earlier, later in combinations(found, 2):
            if (later.booked_at or Instant(0)) < (earlier.booked_at or Instant(0)):
                passed += 1
                used = [each for each in machines if any(slot.node == each.name for slot in later.placement)]
                assert not any(of_use(earlier.submission, node) for node in used), (seed, earlier, later)
    assert passed > 100  # else it has shown nothing


def of_use(job: Submission, node: Machine) -> bool:
    """Whether a GPU of that node could hold a share of the job, were it idle."""
    mine = any(pool.has(node.owner) for pool in pools(job.user, job.plan, job.ask.owner))
    return mine and job.ask.model in (None, node.model) and node.total >= job.ask.mib


@given(fleets, traces, tariffs)
def test_nobody_who_is_first_waits_while_there_is_room(machines: tuple[Machine, ...], jobs: list[Submission], tariff: Tariff) -> None:
    """After every event the oldest waiting job has no room by the readable specification of packing."""
    found = replay(new_ledger(machines), jobs, tariff)
    for now in [each.at for each in found.moments]:
        waiting = [each.submission for each in placed(found) if each.submission.at <= now < (each.booked_at or now)]
        if waiting:
            oldest = min(waiting, key=lambda each: (each.at, each.id))
            wanted = pools(oldest.user, oldest.plan, oldest.ask.owner)
            assert isinstance(best_fit(view(machines, booked_at(found, now)), oldest.ask, wanted), NoRoom)


@given(fleets, traces, tariffs)
def test_a_run_is_only_ever_on_hardware_that_its_user_may_use(
    machines: tuple[Machine, ...], jobs: list[Submission], tariff: Tariff
) -> None:
    """A free user never on a provider's."""
    owners = {each.name: each.owner for each in machines}
    for each in placed(replay(new_ledger(machines), jobs, tariff)):
        for slot in each.placement:
            assert may_use(owners[slot.node], each.submission.user, each.submission.plan)
            assert each.submission.plan == "paid" or not PROVIDERS_POOL.has(owners[slot.node])


@given(fleets, traces, tariffs, st.lists(st.integers(0, 200), max_size=5))
def test_revenue_is_the_closed_form_of_rates_and_running_times(
    machines: tuple[Machine, ...], jobs: list[Submission], tariff: Tariff, instants: list[int]
) -> None:
    """One floor per owner and run of rate x ran; what is earned on the way never falls and ends there."""
    found = replay(new_ledger(machines), jobs, tariff)
    expected = 0
    for each in placed(found):
        assert each.price is not None
        expected += sum(int(line.rate.fraction * Fraction(each.submission.ran.ms, 3_600_000)) for line in each.price.lines)
    assert expected == figures(found).revenue.total.micro
    so_far = [revenue(found.outcomes, Instant(at)).total.micro for at in sorted(instants)]
    assert so_far == sorted(so_far)
    assert all(amount <= expected for amount in so_far)
    assert expected == revenue(found.outcomes, Instant(10**9)).total.micro


@given(fleets, traces, tariffs)
def test_a_replay_is_a_function_of_what_it_is_given(machines: tuple[Machine, ...], jobs: list[Submission], tariff: Tariff) -> None:
    """Else no two runs could be compared; the order of the trace does not count."""
    assert replay(new_ledger(machines), jobs, tariff) == replay(new_ledger(machines), reversed(jobs), tariff)
