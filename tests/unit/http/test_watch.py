"""The live copy: follows the store, wakes who waits, and stays as it was while the store is away."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from ports.errors import Unavailable
from ports.nodes import NodeRecord
from ports.units import Credits, Span
from ports.workloads import Phase
from runtimes.http.metrics import FleetCollector
from runtimes.http.money_seen import MoneySeen
from runtimes.http.watch import Watch
from tests.contract.samples import a_job
from tests.memory.nodes import MemoryNodes
from tests.memory.workloads import MemoryWorkloads
from tests.unit.http.conftest import Gateway


def test_a_copy_begun_late_knows_what_was_before(gateway: Gateway) -> None:
    """A restarted gateway must not show an empty queue and a free fleet."""
    gateway.start(gateway.submit(vram="30GB"))
    waiting = gateway.submit()
    late = Watch(gateway.house.workloads, gateway.house.nodes)
    late.round("", Span(0))
    assert (1, 1, {Phase.RUNNING: 1}) == (
        late.position(waiting.id),
        late.waiting(),
        {phase: count for phase, count in late.phases().items() if count and phase is not Phase.PENDING},
    )
    assert 30 * 1024 == late.fleet().nodes[0].gpus[0].booked.n


def test_before_the_first_reading_there_is_no_fleet(gateway: Gateway) -> None:
    """An empty snapshot would let any ask through, and quote it at nothing."""
    fresh = Watch(gateway.house.workloads, gateway.house.nodes)
    with pytest.raises(Unavailable):
        fresh.fleet()
    assert fresh.stale


def test_what_can_not_be_read_is_counted() -> None:
    """It is skipped wherever jobs are listed: an operator must see that it is there."""
    jobs, records = MemoryWorkloads(), MemoryNodes()
    watch = Watch(jobs, records)
    for number in range(3):
        jobs.create(a_job(f"job-{number}"))
        records.put_spec(NodeRecord(f"n{number}"))
    jobs.spoil("job-0")
    cursor = watch.round("", Span(0))
    assert {"job": 1, "node": 0} == watch.unreadable()
    jobs.spoil("job-1")
    records.spoil("n0")
    cursor = watch.round(cursor, Span(0))
    assert {"job": 2, "node": 1} == watch.unreadable()
    shown = {
        sample.labels["kind"]: sample.value
        for metric in FleetCollector(watch, str).collect()
        for sample in metric.samples
        if sample.name == "gridweave_unreadable_objects"
    }
    assert {"job": 2.0, "node": 1.0} == shown
    jobs.spoil("job-0", mend=True)
    records.spoil("n0", mend=True)
    watch.round(cursor, Span(0))
    assert {"job": 1, "node": 0} == watch.unreadable()


def test_the_thread_outlives_a_store_that_is_away(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells that it is stale, keeps what it knew, and catches up by itself."""
    job = gateway.submit()
    watch = Watch(gateway.house.workloads, gateway.house.nodes)
    failures: list[str] = []
    changes = gateway.house.workloads.changes

    def flaky(cursor: str, wait: Span = Span(0)) -> object:
        if not failures:
            failures.append(watch.stale)
            raise Unavailable("the store", "away")
        return changes(cursor, wait)

    monkeypatch.setattr(gateway.house.workloads, "changes", flaky, raising=False)

    async def life() -> None:
        watch.start(asyncio.get_running_loop())
        try:
            with watch.changes_of(job.id) as signal:
                while watch.stale:
                    await signal.wait(0.01)
                await asyncio.to_thread(gateway.start, job)
                while watch.position(job.id):
                    await signal.wait(5)
        finally:
            await asyncio.to_thread(watch.stop)

    gateway.run(life())
    assert 1 == len(failures)


def test_a_signal_is_heard_only_by_who_follows_that_job(gateway: Gateway) -> None:
    """Ten thousand waiters must not all wake for one job."""
    one, other = gateway.submit(), gateway.submit()

    async def both() -> tuple[float, float]:
        watch = gateway.services.watch
        watch._loop = asyncio.get_running_loop()
        with watch.changes_of(one.id) as first, watch.changes_of(other.id) as second:
            await asyncio.to_thread(gateway.start, one)
            await first.wait(10)
            return first.at, second.at

    heard, unheard = gateway.run(both())
    assert heard > 0
    assert 0 == unheard
    assert not gateway.services.watch._signals


def test_money_seen_counts_what_is_charged_from_now_on(gateway: Gateway) -> None:
    """A counter that jumped at a restart would show a spike of spending."""
    job = gateway.submit()
    before = attrs.evolve(job, spec=attrs.evolve(job.spec, hold=Credits(8)), status=attrs.evolve(job.status, charged=Credits(5)))
    seen = MoneySeen()
    seen.seed([before])
    assert (Credits(0), Credits(8)) == (seen.charged, seen.held)
    later = attrs.evolve(before, status=attrs.evolve(before.status, charged=Credits(7)))
    seen.see([later], [])
    seen.see([later], [])
    assert Credits(2) == seen.charged
    ended = attrs.evolve(later, status=attrs.evolve(later.status, phase=Phase.COMPLETED, charged=Credits(9)))
    seen.see([ended], [])
    assert (Credits(4), Credits(0)) == (seen.charged, seen.held)
    seen.see([ended], [])
    assert Credits(4) == seen.charged, "a store tells at least once"
    anew = MoneySeen()
    anew.succeed(seen)
    anew.see([attrs.evolve(ended, version="99")], [])
    assert (Credits(4), Credits(0)) == (anew.charged, anew.held), "also one that was read anew"
    anew.see([], [ended.id])
    anew.see([attrs.evolve(ended, uid="made-anew")], [])
    assert Credits(13) == anew.charged


def test_a_snapshot_is_made_once_per_change(gateway: Gateway) -> None:
    """A page of a thousand jobs must not fold the fleet a thousand times, and no change may be missed."""
    watch = gateway.services.watch
    job = gateway.submit(vram="30GB")
    first = watch.fleet()
    assert first is watch.fleet()
    gateway.start(job)
    second = watch.fleet()
    gateway.node("n2", ("L4-24GB", 24))
    assert [(0, 1), (30 * 1024, 1), (30 * 1024, 2)] == [
        (each.nodes[0].gpus[0].booked.n, len(each.nodes)) for each in (first, second, watch.fleet())
    ]
