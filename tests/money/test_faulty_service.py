"""The real service behind a proxy that loses, delays and doubles: the same totals, to the micro-credit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import stamina
from attrs import evolve

from adapters.local.clock import SystemClock
from adapters.remote.credits import RemoteCredits, line_to_credits
from adapters.remote.metering import RemoteMetering, line_to_metering
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from core import lifecycle
from core.close import close
from core.house import House, Terms
from core.tick import tick
from ports.credits import ISSUE, PAID_OUT
from ports.errors import Unavailable
from ports.months import Month
from ports.nodes import NodeRecord, NodeState, NodeStatus
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import Ask, BlobRef, Exit, ExitKind, Job, JobSpec, JobStatus, Phase, Run, RunId, RunState, Slot
from tests.contract.credits_process import ROOT, TOKEN, CreditsProcess
from tests.contract.peers import answering
from tests.contract.samples import a_charge
from tests.memory.blobs import MemoryBlobs
from tests.memory.nodes import MemoryNodes
from tests.memory.workloads import MemoryWorkloads
from tests.money.history import History
from tests.money.proxy import KINDS, FaultProxy

TICKS = int(os.environ.get("MONEY_TICKS", "150"))  # make money-long: 10,000


@pytest.fixture(autouse=True)
def _no_pauses() -> Iterator[None]:
    """Calls are repeated as often as ever, and nobody sleeps in between."""
    stamina.set_testing(True, attempts=4, cap=True)
    yield
    stamina.set_testing(False)


@pytest.mark.timeout(0 if "MONEY_TICKS" in os.environ else 300)
def test_faults_between_biller_and_service_change_no_total(tmp_path: Path) -> None:
    """Every settled job is compared with the closed form, and the books with their sum. The share of faults rises from 0 to 30 %."""
    service = CreditsProcess(tmp_path)
    service.start()
    proxy = FaultProxy(service.url, "1", 0)
    try:
        with closing(line_to_credits(proxy.url, TOKEN)) as money, closing(line_to_metering(proxy.url, TOKEN)) as metering:
            history = History("faults", tmp_path, 0.02, (RemoteCredits(money), RemoteMetering(metering)))
            try:
                while history.ticks < TICKS:
                    proxy.share = 0.3 * history.ticks / TICKS
                    history.step()
                proxy.share = 0
                proxy.flush()
                history.rest()
            finally:
                history.shut()
        service.check_standing()
    finally:
        proxy.close()
        service.kill()
    service.check_left()
    assert {*KINDS, "none"} == set(proxy.mishaps)
    assert history.settled > TICKS / 20


SECOND = Price(1, (PriceLine("org", Rate(3_600_000_000)),))  # one credit


def one_running(clock: SystemClock, credits: RemoteCredits, metering: RemoteMetering) -> tuple[House, Job]:
    """Ann has a thousand credits, and a job that runs; what its node tells is the test's to say."""
    unused = cast(Any, None)
    terms, jobs = Terms(credits_enabled=True), MemoryWorkloads()
    house = House(jobs, MemoryNodes(), credits, unused, MemoryBlobs(clock), clock, unused, terms, metering)
    credits.post("grant", "grant", {"user:ann": Credits(10**9), ISSUE: Credits(-(10**9))})
    run = Run(RunId("job-1", 1), RunState.RUNNING, (Slot("n1", 0, Mib(1)),), 1, SECOND, Instant(1), Instant(1))
    spec = JobSpec("ann", "paid", "work", Ask(Mib(1)), BlobRef("", 0), BlobRef("", 0))
    return house, jobs.create(Job("job-1", "uid-1", Instant(1), spec, JobStatus(Phase.RUNNING, 1, (run,))))


def test_a_meter_that_refuses_what_it_is_told_keeps_no_charge_from_being_made(tmp_path: Path) -> None:
    """Somebody else's service that answers 400 to every event: ticks and the final charge are posted, the job is settled."""
    service, clock = CreditsProcess(tmp_path), SystemClock()
    service.start()
    try:
        with (
            answering(400, b'{"message": "no such meter"}') as url,
            closing(line_to_credits(service.url, TOKEN)) as money,
            closing(line_to_metering(url, TOKEN)) as metering,
        ):
            house, job = one_running(clock, RemoteCredits(money), RemoteMetering(metering))
            house.nodes.put_status(NodeRecord("n1", status=NodeStatus(NodeState.READY, ran={"job-1/1": Span.of(seconds=5)})))
            assert (1, 1) == ((done := tick(house)).runs, done.posted)
            ended = evolve(job, status=lifecycle.ended(job, Exit(ExitKind.RAISED), Span.of(seconds=7), clock.now()))
            ended = house.workloads.replace(evolve(ended, status=lifecycle.nothing_to_store(ended.status, "Stored", clock.now())))
            assert Credits.parse("7") == close(house, ended).status.charged
            assert Credits.parse("993") == house.credits.account("user:ann").balance
    finally:
        service.kill()


def test_each_step_of_a_months_budget_is_told_though_the_answer_that_told_it_was_lost(tmp_path: Path) -> None:
    """At least once, and known by its id, as what was used is; also where the charge that reached it was the last."""
    service = CreditsProcess(tmp_path)
    service.start()
    proxy, clock = FaultProxy(service.url, "1", 0, ("lost", "broken")), SystemClock()
    try:
        with closing(line_to_credits(proxy.url, TOKEN)) as money, closing(line_to_metering(service.url, TOKEN)) as metering:
            house, job = one_running(clock, RemoteCredits(money), RemoteMetering(metering))
            house.credits.set_cap("user:ann", Credits(100 * 1_000_000))
            record, lost = NodeRecord("n1"), 0
            for seconds in (49, 51, 85):
                status = NodeStatus(NodeState.READY, ran={"job-1/1": Span.of(seconds=seconds)})
                record = house.nodes.put_status(evolve(record, status=status))
                proxy.share = 1
                with pytest.raises(Unavailable):
                    tick(house)
                proxy.share = 0
                for _ in range(2):
                    lost += not tick(house).months
            assert 6 == lost, "the service tells each step once, and nobody has heard it"
            ended = evolve(job, status=lifecycle.ended(job, Exit(ExitKind.RAISED), Span.of(seconds=101), clock.now()))
            ended = house.workloads.replace(evolve(ended, status=lifecycle.nothing_to_store(ended.status, "Stored", clock.now())))
            proxy.share = 1
            with pytest.raises(Unavailable):
                close(house, ended)
            proxy.share = 0
            assert Credits.parse("101") == close(house, ended).status.charged
    finally:
        proxy.close()
        service.kill()
    with closing(open_credits(tmp_path)) as database:
        events = [usage for _, usage in SqliteMetering(database).recorded()]
        month = str(Month.of(clock.now()))
        steps = [(each.id, each.user, each.month, each.percent) for each in events if each.kind == "budget"]
        assert [(f"user:ann/{month}/budget/{percent}", "ann", month, percent) for percent in (50, 80, 100)] == steps
        assert [51, 85, 101] == [each.total.micro // 1_000_000 for each in events if each.kind == "budget"]
        assert [49, 51, 85, 101] == [each.ran.ms // 1_000 for each in events if each.kind != "budget"]
        assert SqliteCredits(database, clock).verify().sound


CALLS = ("credits.authorise", "credits.charge", "credits.void", "credits.post", "credits.capture", "metering.record")
POINTS = [f"{call}:{when}:2" for call in CALLS for when in ("before", "after")]


def test_a_service_that_is_killed_at_any_boundary_forgets_nothing_and_charges_nothing_twice(tmp_path: Path) -> None:
    """SIGKILL before and after each of its calls, the answer never sent; then it comes back on the same journal."""
    service = CreditsProcess(tmp_path)
    service.start()
    try:
        with closing(line_to_credits(service.url, TOKEN)) as money, closing(line_to_metering(service.url, TOKEN)) as metering:
            history = History("kills", tmp_path, 0, (RemoteCredits(money), RemoteMetering(metering)))
            try:
                for point in POINTS:
                    service.kill()
                    service.settings = {"GRIDWEAVE_FAILPOINT": point}
                    service.start()
                    for _ in range(1_000):
                        history.step()
                        if not service.alive:
                            break
                    assert -signal.SIGKILL == service.ended(), f"{point} was never reached"
                service.settings = {}
                service.start()
                history.rest()
            finally:
                history.shut()
        service.check_standing()
    finally:
        service.kill()
    service.check_left()
    assert history.settled > 10


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_payout_that_is_killed_pays_once(when: str, tmp_path: Path) -> None:
    """Whoever finds the run dead starts it again, and knows nothing of how far it came."""
    with closing(open_credits(tmp_path)) as database:
        credits = SqliteCredits(database, SystemClock())
        credits.charge([a_charge(10, provider_acme=30, provider_zoe=7, org=5)])
        assert -signal.SIGKILL == payout(tmp_path, GRIDWEAVE_FAILPOINT=f"credits.payouts:{when}").returncode
        first, again = payout(tmp_path), payout(tmp_path)
        assert ["0.000037" if when == "before" else "0.000000", "0.000000"] == [said.stdout.split()[-5] for said in (first, again)]
        assert [0, 0, 37, 5] == [credits.account(name).balance.micro for name in ("provider:acme", "provider:zoe", PAID_OUT, "org")]
        assert credits.verify().sound


def payout(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Of all that was earned up to now, by the command that operators have."""
    time.sleep(0.01)  # what was posted in the millisecond of `--until` is not before it
    until = datetime.now(UTC).isoformat()
    env = {"PATH": "", "PYTHONPATH": str(ROOT), "STATE_DIR": str(folder), "ADMIN_TOKEN": TOKEN, **settings}
    command = [sys.executable, "-m", "runtimes.credits", "payout", "--until", until]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
