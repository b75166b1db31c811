"""How the house is, for admins; how his hardware does, for a provider."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from core.arrears import PREFIX, BlobArrears
from core.tick import tick
from ports.arrears import Debt
from ports.credits import PAID_OUT, ChargeAnswer
from ports.errors import Unavailable
from ports.nodes import Quarantine
from ports.units import Credits, Instant, Mib, Span
from tests.contract.samples import a_charge
from tests.memory.credits import MemoryCredits
from tests.unit.http.conftest import ADMIN, ALICE, Gateway, Make, body

OPERATOR = {"Authorization": f"Bearer {ADMIN}"}
ACME = {"X-User-Id": "acme", "X-User-Role": "provider", "X-User-Plan": "paid"}


def test_only_whom_it_concerns_may_look(gateway: Gateway) -> None:
    """Earnings and faults are nobody else's business."""
    paths = (("/v1/admin/health", ALICE), ("/v1/admin/health", ACME), ("/v1/provider/status", ALICE), ("/v1/provider/status", OPERATOR))
    assert [403] * 4 == [gateway.get(path, who).status_code for path, who in paths]


def test_a_provider_sees_his_nodes_what_runs_there_and_what_he_has_earned(make: Make) -> None:
    """And neither the nodes nor the money of others."""
    gateway = make(credits_enabled=True)
    gateway.node("p1", ("L4-24GB", 24), ("L4-24GB", 24), owner="provider:acme")
    gateway.node("z1", ("L4-24GB", 24), owner="provider:zoe")
    gateway.pay("alice", 1_000)
    gateway.start(gateway.submit(vram="8GB"), "p1")
    credits = gateway.house.credits
    credits.charge([a_charge(10, provider_acme=3_000_001, provider_zoe=7)])
    credits.post("payout/1", "payout", {"provider:acme": Credits(-1_000_000), PAID_OUT: Credits(1_000_000)})
    said = gateway.get("/v1/provider/status", ACME).json()
    assert [("p1", 1)] == [(each["node"]["name"], each["runs"]) for each in said["nodes"]]
    assert (1, 2 * 24 * 1024, 8 * 1024) == (said["runs"], said["total_mib"], said["booked_mib"])
    earned = {"balance": "2.000001", "today": "3.000001", "month": "3.000001", "ever": "3.000001", "paid_out": "1.000000"}
    assert earned == said["earned"]


def test_without_credits_a_provider_still_sees_his_nodes(make: Make) -> None:
    gateway = make(credits_enabled=False)
    gateway.node("p1", ("L4-24GB", 24), owner="provider:acme")
    said = gateway.get("/v1/provider/status", ACME).json()
    assert (1, None) == (len(said["nodes"]), said["earned"])


def by_name(said: dict[str, Any]) -> dict[str, bool]:
    return {each["name"]: each["ok"] for each in said["dependencies"]}


def test_health_names_each_dependency(make: Make) -> None:
    """What is down is said, and not only that something is."""
    gateway = make(credits_enabled=True)
    said = gateway.get("/v1/admin/health", OPERATOR).json()
    assert dict.fromkeys(("store", "tariffs", "blobs", "credits", "metering"), True) == by_name(said)
    assert ([], [], []) == (said["rounds"], said["drift"], said["quarantine"])
    gateway.money.close()
    said = gateway.get("/v1/admin/health", OPERATOR).json()
    assert (False, False, True) == (said["ok"], by_name(said)["credits"], by_name(said)["store"])


def test_health_tells_of_quarantine_and_of_records_that_disagree(make: Make) -> None:
    """A run that no node tells of is one that nobody bills."""
    gateway = make(credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 1_000)
    run = gateway.start(gateway.submit(vram="8GB"))
    record = gateway.house.nodes.get("n1")
    assert record is not None
    status = attrs.evolve(record.status, ran={"ghost/1": Span(5)}, quarantine=(Quarantine("lost/1", 0, Mib(1024)),))
    gateway.house.nodes.put_status(attrs.evolve(record, status=status))
    gateway.look()
    said = gateway.get("/v1/admin/health", OPERATOR).json()
    assert [{"node": "n1", "gpu": 0, "mib": 1024, "run": "lost/1"}] == said["quarantine"]
    assert sorted([f"{run.id} is Running, and no node tells of it", "n1 tells of ghost/1, which no workload holds"]) == said["drift"]


def test_health_tells_of_arrears_and_since_when_nothing_could_be_charged(make: Make) -> None:
    """Money that is owed and asked for by nobody is found by looking, and not in the books of next year."""
    gateway = make(credits_enabled=True)
    nothing = {"debts": 0, "users": 0, "credits": "0.000000", "oldest": None}
    said = gateway.get("/v1/admin/health", OPERATOR).json()
    assert (nothing, {"taken": None, "away": "", "uncharged": {}, "limit": "100.000000"}) == (said["arrears"], said["charging"])
    arrears = BlobArrears(gateway.house.blobs)
    for uid, payer, since in (("1", "user:ann", 3_000), ("2", "user:bob", 2_000), ("3", "user:ann", 4_000)):
        arrears.add(Debt(uid, f"job-{uid}", payer, (a_charge(5, payer=payer, org=1_500_001),), Instant(since)))
    said = gateway.get("/v1/admin/health", OPERATOR).json()
    assert {"debts": 3, "users": 2, "credits": "4.500003", "oldest": "1970-01-01T00:00:02.000Z"} == said["arrears"]
    assert not said["ok"]
    gateway.house.blobs.put(f"{PREFIX}x.json", [b"{"])
    said = gateway.get("/v1/admin/health", OPERATOR).json()
    assert (None, False) == (said["arrears"], by_name(said)["arrears"])


def test_health_tells_who_may_start_nothing_more(make: Make) -> None:
    """As the newest billing round has reckoned it."""
    gateway = make(credits_enabled=True, exposure_limit=Credits(1))
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 100)
    run = gateway.start(gateway.submit())
    record = gateway.house.nodes.get("n1")
    assert record is not None
    gateway.house.nodes.put_status(attrs.evolve(record, status=attrs.evolve(record.status, ran={str(run.id): Span(3_600_000)})))

    class Away(MemoryCredits):
        def charge(self, charges: object) -> tuple[ChargeAnswer, ...]:
            raise Unavailable("the credit service", "ConnectError")

    with pytest.raises(Unavailable):
        tick(attrs.evolve(gateway.house, credits=Away(gateway.house.clock)))
    said = gateway.get("/v1/admin/health", OPERATOR).json()["charging"]
    assert (None, {"alice": "8.000000"}, "0.000001") == (said["taken"], said["uncharged"], said["limit"])
    assert "the credit service" in said["away"]
    refused = gateway.post("/v1/jobs/submit", json=body())
    assert (503, "8.000000", "0.000001") == (refused.status_code, refused.json()["need"], refused.json()["have"]), refused.text
    assert "15" == refused.headers["Retry-After"]
    tick(gateway.house)
    said = gateway.get("/v1/admin/health", OPERATOR).json()["charging"]
    assert ("", {}, True) == (said["away"], said["uncharged"], said["taken"] is not None)
    assert 202 == gateway.post("/v1/jobs/submit", json=body()).status_code
