"""Account and postings over HTTP."""

from __future__ import annotations

import asyncio
import csv
import io
from collections import Counter
from typing import Any

import attrs
import httpx
import pytest

from adapters.sqlite.credits import SqliteCredits
from core.tick import tick
from ports.credits import Charge, user_account
from ports.months import Month
from ports.units import Credits, Span
from ports.workloads import RunId
from tests.contract.samples import a_charge
from tests.unit.http.conftest import ALICE, Gateway, Make, body

MONEY = {"balance": "18.499999", "held": "8.000000", "available": "10.499999"}


def billed(make: Make) -> Gateway:
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 20)
    charge = Charge(RunId("job-a", 1), "u1", user_account("alice"), Span(3_600_000), {"provider:acme": Credits(1_500_001)})
    gateway.house.credits.charge([charge])
    return gateway


def test_the_account_shows_balance_and_holds(make: Make) -> None:
    """To the micro-credit, as text: a float would lose it."""
    gateway = billed(make)
    gateway.submit()
    said = gateway.get("/v1/account").json()
    month = Month.of(gateway.house.clock.now())
    resets = f"{month.next}-01T00:00:00.000Z"
    budget = {"month": str(month), "zone": "UTC", "monthly": None, "spent": "1.500001", "resets": resets}
    assert {"user": "alice", "plan": "paid", "credits_enabled": True, "budget": budget} | MONEY == said
    estimate = gateway.post("/v1/jobs/estimate", json={"vram": "8GB"}).json()
    assert (MONEY["balance"], MONEY["available"]) == (estimate["balance"], estimate["available"]), "one word means one thing"


def test_usage_is_read_page_by_page(make: Make) -> None:
    """The postings add up to the balance."""
    gateway = billed(make)
    first = gateway.get("/v1/usage?limit=1").json()
    second = gateway.get(f"/v1/usage?after={first['cursor']}").json()
    (grant,), (charge,) = first["entries"], second["entries"]
    assert ("20.000000", "grant") == (grant["amount"], grant["kind"])
    assert ("-1.500001", "job-a", "job-a/1", 3_600_000) == tuple(charge[name] for name in ("amount", "job", "run", "ran_ms"))
    assert {"entries": [], "cursor": second["cursor"]} == gateway.get(f"/v1/usage?after={second['cursor']}").json()


def test_usage_is_csv_for_who_asks_for_it(make: Make) -> None:
    """Accountants open it in a spreadsheet; nothing in it may be a formula."""
    gateway = billed(make)
    gateway.house.credits.post("evil", "grant", {user_account("alice"): Credits(1), "issue": Credits(-1)}, "=HYPERLINK(1)")
    answer = gateway.get("/v1/usage", ALICE | {"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert ["20.000000", "-1.500001", "0.000001"] == [row["amount"] for row in rows]
    assert "'=HYPERLINK(1)" == rows[2]["memo"]


def test_everybody_sees_his_own_postings_only(make: Make) -> None:
    """And a provider what he has earned."""
    gateway = billed(make)
    assert [] == gateway.get("/v1/usage", {"X-User-Id": "bob"}).json()["entries"]
    assert [] == gateway.get("/v1/usage", {"X-User-Id": "acme"}).json()["entries"]
    (earned,) = gateway.get("/v1/usage", {"X-User-Id": "acme", "X-User-Role": "provider"}).json()["entries"]
    assert ("1.500001", "provider:acme") == (earned["amount"], earned["account"])


def test_without_credits_there_is_no_bill(gateway: Gateway) -> None:
    """CREDITS_ENABLED=false: the routes answer, and say so."""
    nothing = dict.fromkeys(("balance", "held", "available"), "0.000000")
    said = gateway.get("/v1/account").json()
    assert (None, "0.000000") == (said["budget"]["monthly"], said["budget"]["spent"])
    assert {"user": "alice", "plan": "paid", "credits_enabled": False, "budget": said["budget"]} | nothing == said
    assert {"entries": [], "cursor": 0} == gateway.get("/v1/usage").json()


def test_status_tick_and_bill_agree_on_what_runs(make: Make) -> None:
    """A user who watches a job sees it cost what he will be charged for it."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 20)
    job = gateway.submit()
    run = gateway.start(job)
    record = gateway.house.nodes.get("n1")
    assert record is not None
    gateway.house.nodes.put_status(attrs.evolve(record, status=attrs.evolve(record.status, ran={str(run.id): Span(1_234_567)})))
    gateway.look()
    status = gateway.get(f"/v1/jobs/{job.id}/status").json()
    (listed,) = gateway.get("/v1/jobs").json()["jobs"]
    tick(gateway.house)
    posted = [entry for entry in gateway.get("/v1/usage").json()["entries"] if entry["job"] == job.id]
    assert (1_234_567, "2.743482") == (status["ran_ms"], status["charged"])
    assert [(1_234_567, "-2.743482")] == [(entry["ran_ms"], entry["amount"]) for entry in posted]
    assert (status["ran_ms"], status["charged"]) == (listed["ran_ms"], listed["charged"])
    stored = gateway.house.workloads.get(job.id)
    assert stored is not None
    assert (Span(0), Credits(0)) == (stored.status.runs[0].ran, stored.status.charged), "made when looked at, stored nowhere"


def test_a_job_that_has_ended_shows_its_final_charge_and_holds_nothing(make: Make) -> None:
    """Whatever the nodes still tell of it."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 20)
    job = gateway.submit()
    before = gateway.get(f"/v1/jobs/{job.id}/status").json()
    assert ("8.000000", "8.000000") == (before["hold"], before["held"])
    run = gateway.start(job)
    gateway.finish(job, b"49")
    record = gateway.house.nodes.get("n1")
    assert record is not None
    gateway.house.nodes.put_status(attrs.evolve(record, status=attrs.evolve(record.status, ran={str(run.id): Span(9_999_999)})))
    gateway.look()
    after = gateway.get(f"/v1/jobs/{job.id}/status").json()
    assert ("8.000000", "0.000000", 1500, "0.000000") == tuple(after[name] for name in ("hold", "held", "ran_ms", "charged"))


def line(said: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(said[name] for name in ("account", "opening", "kinds", "closing"))


def test_a_month_begins_with_what_the_one_before_ended_with(make: Make) -> None:
    """Statements that do not join up prove nothing."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 20)
    gateway.house.credits.charge([a_charge(3_600_000, provider_alice=5, org=1)])
    provider = ALICE | {"X-User-Role": "provider"}
    month = Month.of(gateway.house.clock.now())
    said = gateway.get(f"/v1/statement?month={month}", provider).json()
    mine, earned = said["statements"]
    assert ("UTC", str(month)) == (said["zone"], said["month"])
    assert ("user:alice", "0.000000", {"charge": "-0.000006", "grant": "20.000000"}, "19.999994") == line(mine)
    assert ("provider:alice", "0.000000", {"charge": "0.000005"}, "0.000005") == line(earned)
    after = gateway.get(f"/v1/statement?month={month.next}", provider).json()["statements"]
    assert [("19.999994", {}, "19.999994"), ("0.000005", {}, "0.000005")] == [line(each)[1:] for each in after]
    assert 1 == len(gateway.get(f"/v1/statement?month={month}").json()["statements"]), "nobody else's hardware is a user's business"
    text = gateway.get(f"/v1/statement?month={month}", provider | {"Accept": "text/csv"}).text.splitlines()
    assert ["account,line,amount", "user:alice,opening,0.000000"] == text[:2]
    assert "provider:alice,closing,0.000005" == text[-1]


def test_postings_of_a_month_add_up_to_its_statement(make: Make) -> None:
    """Whoever checks the sum by hand comes to the same."""
    gateway = make(credits_enabled=True)
    gateway.pay("alice", 20)
    gateway.house.credits.charge([a_charge(3_600_000, org=1_234_567)])
    month = Month.of(gateway.house.clock.now())
    entries = gateway.get(f"/v1/usage?month={month}").json()["entries"]
    (said,) = gateway.get(f"/v1/statement?month={month}").json()["statements"]
    assert Credits.parse(said["closing"]).micro == sum(Credits.parse(each["amount"]).micro for each in entries)
    assert [] == gateway.get(f"/v1/usage?month={month.next}").json()["entries"]


@pytest.mark.parametrize("month", ["", "2026-13", "last", "2026-11-01"])
def test_what_is_no_month_is_refused(make: Make, month: str) -> None:
    """The statement of another month would be believed."""
    gateway = make(credits_enabled=True)
    refused = gateway.get(f"/v1/statement?month={month}")
    assert (400, "month") == (refused.status_code, refused.json()["field"])


@pytest.mark.parametrize(
    ("known", "said", "counts"), [("free", "paid", "free"), ("paid", "free", "free"), ("", "paid", "paid"), ("paid", "paid", "paid")]
)
def test_the_platforms_word_narrows_the_plan_and_never_widens_it(make: Make, known: str, said: str, counts: str) -> None:
    """Whoever forges a header gets no provider's hardware by it."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("L4-24GB", 24), owner="provider:acme")
    gateway.node("n2", ("L4-24GB", 24))
    gateway.pay("alice", 1_000)
    if known:
        credits = gateway.house.credits
        assert isinstance(credits, SqliteCredits)
        credits.set_plan("alice", known)
    headers = ALICE | {"X-User-Plan": said}
    assert counts == gateway.get("/v1/account", headers).json()["plan"]
    pools = gateway.post("/v1/jobs/estimate", headers, json={"vram": "8GB"}).json()["pools"]
    assert (["org"] if counts == "free" else ["providers", "org"]) == pools
    assert counts == gateway.submit(headers).spec.plan


def test_of_fifty_submits_at_once_with_credits_for_one_one_is_accepted(make: Make) -> None:
    """Balance and holds are looked at and changed in one step, however many look at once."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 8)

    async def all_at_once() -> list[int]:
        asked = (gateway.client.post("/v1/jobs/submit", headers=ALICE, json=body(vram="8GB", name=f"job-{n}")) for n in range(50))
        return [answer.status_code for answer in await asyncio.gather(*asked)]

    assert {202: 1, 402: 49} == Counter(gateway.run(all_at_once()))
    gateway.look()
    assert 1 == len(gateway.get("/v1/jobs").json()["jobs"])
    assert ("8.000000", "0.000000") == tuple(gateway.get("/v1/account").json()[name] for name in ("held", "available"))


def budget(gateway: Gateway, said: str) -> httpx.Response:
    return gateway.request("PUT", "/v1/account/budget", ALICE | {"Content-Type": "application/json"}, content=f'{{"monthly": {said}}}')


def test_at_the_months_budget_nothing_new_is_taken(make: Make) -> None:
    """Whoever has set it means it, however much money there is; and estimates say so before."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 1_000)
    said = budget(gateway, "10").json()
    assert ("10.000000", "0.000000", "10.000000") == (said["budget"]["monthly"], said["budget"]["spent"], said["available"])
    gateway.submit(vram="8GB")
    refused = gateway.post("/v1/jobs/submit", json=body(vram="8GB"))
    problem = refused.json()
    assert (402, "8.000000", "2.000000") == (refused.status_code, problem["need"], problem["have"])
    month = Month.of(gateway.house.clock.now())
    resets = f"{month.next}-01T00:00:00.000Z"
    assert {"month": str(month), "monthly": "10.000000", "spent": "0.000000", "resets": resets} == problem["budget"]
    assert f"2.000000 are left of the budget of 10.000000 for {month}: 0.000000 are spent, 8.000000 are set aside" in problem["detail"]
    assert "The month's budget does not cover it" == problem["title"]
    for said in ("PUT /v1/account/budget", f"A new one begins on {month.next}-01", "The balance of 1000.000000 is enough."):
        assert said in problem["remedy"]
    assert resets == gateway.get("/v1/account").json()["budget"]["resets"]
    estimate = gateway.post("/v1/jobs/estimate", json={"vram": "8GB"}).json()
    assert (False, "2.000000", "1000.000000") == (estimate["affordable"], estimate["available"], estimate["balance"])
    assert f"{problem['detail']} {problem['remedy']}" == estimate["unaffordable"]
    assert None is budget(gateway, "null").json()["budget"]["monthly"]
    gateway.submit(vram="8GB")


@pytest.mark.parametrize("said", ["-1", "NaN", "1e308", "100000000000", "0.0000001", '"5 EUR"', "true", "[]"])
def test_a_budget_that_is_no_amount_is_refused(make: Make, said: str) -> None:
    gateway = make(credits_enabled=True)
    refused = budget(gateway, said)
    assert (400, "monthly") == (refused.status_code, refused.json()["field"])


def test_without_credits_there_is_no_budget(make: Make) -> None:
    """A bound that nothing keeps would be believed."""
    assert (400, "monthly") == ((refused := budget(make(credits_enabled=False), "5")).status_code, refused.json()["field"])
