"""The bill: whoever ticks, and whenever, the total is the closed form of what the run's status says."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from typing import Any

import gridweave as gw
import pytest

from ports.credits import PLATFORM, owner_account, user_account
from ports.units import Credits
from tests.e2e.closed_form import charged, cost
from tests.e2e.gateways import ROOT, SOURCES
from tests.e2e.rig import Rig, User


def sleeps(seconds: float) -> None:
    import time

    time.sleep(seconds)


def charges(user: User) -> list[dict[str, Any]]:
    return [entry for entry in user.client.usage()["entries"] if entry["kind"] == "charge"]


@pytest.mark.parametrize(
    ("ask", "gb"),
    [
        ({"vram": "8GB", "owner": "org"}, Fraction(8)),
        ({"vram": "1000MiB", "gpus": 2, "owner": "org"}, Fraction(2000, 1024)),
        ({"vram": "1GB", "exclusive": True, "owner": "provider"}, Fraction(24)),
    ],
    ids=str,
)
def test_a_run_costs_the_closed_form_exactly(rig: Rig, ask: dict[str, Any], gb: Fraction) -> None:
    """Cents that nobody can explain cost more trust than they are worth."""
    user = rig.user()
    status = user.ended(user.spawn(sleeps, 0.2, **ask))
    assert status["ran_ms"] >= 200
    assert cost(status, gb) == charged(status)
    assert Credits.parse("1000") - charged(status) == user.balance()
    assert Credits(int(gb * 1_000_000 + Fraction(999, 1000))) >= Credits.parse(status["rate_per_hour"]) >= Credits(int(gb * 1_000_000))


def test_many_ticks_by_several_billers_give_the_same_total(rig: Rig) -> None:
    """Ticks are how often is looked, not what is owed."""
    user = rig.user()
    job = user.spawn(sleeps, 3, vram="24GB")
    user.running(job)
    env = {**os.environ, **rig.gateway.settings, "STATE_DIR": str(rig.gateway.state), "PYTHONPATH": SOURCES}
    for _ in range(2):
        subprocess.run([sys.executable, "-m", "runtimes.batch", "bill"], cwd=ROOT, env=env, check=True, capture_output=True)
    status = user.ended(job)
    posted = charges(user)
    assert len(posted) > 1
    assert cost(status, 24) == charged(status)
    assert -charged(status).micro == sum(Credits.parse(each["amount"]).micro for each in posted)
    assert [each["ran_ms"] for each in posted] == sorted(each["ran_ms"] for each in posted)
    assert status["ran_ms"] == posted[-1]["ran_ms"]


def test_the_hold_lasts_as_long_as_the_job_and_is_then_given_back(rig: Rig) -> None:
    """It is a reserve and not a payment."""
    user = rig.user()
    job = user.hold(vram="10GB", owner="org")
    status, account = job.status(), user.client.account()
    assert "0.001000" == status["hold"]  # 10 credits per hour for PREFLIGHT_HOURS
    assert status["hold"] == account["held"]
    user.release(job)
    assert "0.000000" == user.client.account()["held"]
    assert Credits.parse("1000") - charged(job.status()) == user.balance()


def test_a_provider_earns_what_the_user_pays(rig: Rig) -> None:
    """Money is moved and never made."""
    user = rig.user()
    began = rig.credits.journal(user_account(user.id))[-1].seq  # others' jobs may be settled meanwhile; they are not counted
    status = user.ended(user.spawn(sleeps, 0.5, vram="24GB", provider="acme"))
    run = f"{status['id']}/1"

    def moved(*accounts: str) -> int:
        return sum(each.amount.micro for name in accounts for each in rig.credits.journal(name, began, 10_000) if each.run == run)

    assert charged(status) > Credits(0)
    assert (-charged(status).micro, charged(status).micro) == (
        moved(user_account(user.id)),
        moved(owner_account("provider:acme"), PLATFORM),
    )
    acme = rig.user("acme", role="provider", credits=None)
    entries = [each for each in acme.client.usage(limit=10_000)["entries"] if each["run"] == run]
    assert moved(owner_account("provider:acme")) == sum(Credits.parse(each["amount"]).micro for each in entries) > 0


def test_usage_as_csv_adds_up_to_the_balance(rig: Rig) -> None:
    """An accountant reads no JSON."""
    user = rig.user()
    jobs = [user.spawn(sleeps, 0.1, vram="24GB") for _ in range(3)]
    seen = [user.ended(job) for job in jobs]
    rows = list(csv.DictReader(io.StringIO(user.client.usage_csv())))
    assert user.balance().micro == sum(Credits.parse(row["amount"]).micro for row in rows)
    billed = Counter[str]()  # of a job there is a row for each round of billing that it met
    for row in rows:
        billed[row["job"]] -= Credits.parse(row["amount"]).micro if row["kind"] == "charge" else 0
    assert {each["id"]: charged(each).micro for each in seen} == {job: cost for job, cost in billed.items() if job}


def test_usage_is_read_on_from_a_cursor_without_gap_or_repeat(rig: Rig) -> None:
    """A monthly export asks for what is new."""
    user = rig.user()
    for _ in range(2):
        user.ended(user.spawn(sleeps, 0.1, vram="24GB"))
    whole, read, after = user.client.usage()["entries"], [], 0
    while page := user.client.usage(after=after, limit=1)["entries"]:
        read += page
        after = page[-1]["seq"]
    assert whole == read
    assert 3 == len(whole)


def test_what_cannot_be_afforded_is_refused_and_leaves_nothing(rig: Rig) -> None:
    """A debt is worse than a refusal."""
    user = rig.user(credits="0.0007")
    with pytest.raises(gw.Refused) as caught:
        user.spawn(sleeps, 0, vram="8GB", owner="org")
    facts = caught.value.facts
    assert (402, "cannot-afford", "0.000800", "0.000700") == (caught.value.status, caught.value.kind, facts["need"], facts["have"])
    assert [] == list(user.client.jobs())
    assert "0.000000" == user.client.account()["held"]
    rig.grant(user, "0.0001")
    assert "Completed" == user.ended(user.spawn(sleeps, 0, vram="8GB", owner="org"))["phase"]


def test_when_the_balance_is_gone_what_runs_is_ended_and_what_ran_is_billed(rig: Rig) -> None:
    """Nobody works on credit, and the debt stays small."""
    user = rig.user(credits="0.0024")
    job = user.spawn(sleeps, 600, vram="24GB", owner="org")
    status = user.ended(job)
    assert ("Failed", "BalanceExhausted") == (status["phase"], status["reason"])
    assert cost(status, 24) == charged(status)
    assert Credits.parse("0.0024") - charged(status) == user.balance()
    assert user.balance() <= Credits(0)
    with pytest.raises(gw.Refused) as caught:
        user.spawn(sleeps, 0)
    assert 402 == caught.value.status


def test_the_books_balance_in_the_end(rig: Rig) -> None:
    """Every posting sums to zero, and every balance is the sum of its postings."""
    user = rig.user()
    user.ended(user.spawn(sleeps, 0.1, vram="24GB"))
    audited = rig.credits.verify()
    assert audited.sound, audited
    assert () == rig.credits.alarms()
