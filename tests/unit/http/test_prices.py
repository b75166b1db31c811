"""Price lists over HTTP: who may change them, from when on, and that nobody's change undoes another's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.inventory import fold
from core.pricing import price, rate
from ports.units import Instant, Mib, Span
from ports.workloads import Slot
from tests.unit.http.conftest import ADMIN, ALICE, Gateway

OPERATOR = {"Authorization": f"Bearer {ADMIN}"}
ACME = {"X-User-Id": "acme", "X-User-Role": "provider", "X-User-Plan": "paid"}
GPU, SPLITS, OWN = "/v1/admin/gpu-pricing", "/v1/admin/revenue-splits", "/v1/provider/pricing"
BODIES: dict[str, dict[str, Any]] = {GPU: {"models": {}}, SPLITS: {}, OWN: {"models": {}}}
WHO = {GPU: OPERATOR, SPLITS: OPERATOR, OWN: ACME}


def put(gateway: Gateway, path: str, body: Any, version: str | None = '"1"', who: dict[str, str] | None = None) -> Any:
    match = {} if version is None else {"If-Match": version}
    content = body if isinstance(body, str) else json.dumps(body)
    headers = (who or WHO[path]) | match | {"Content-Type": "application/json"}
    return gateway.request("PUT", path, headers, content=content)


@pytest.mark.parametrize("path", [GPU, SPLITS, OWN])
def test_whoever_lacks_the_role_is_refused(gateway: Gateway, path: str) -> None:
    """A price is what others pay."""
    other = ACME if path != OWN else ALICE
    assert [403, 403] == [gateway.get(path, other).status_code, put(gateway, path, BODIES[path], who=other).status_code]
    assert 1 == len(gateway.house.tariffs.history())


def test_the_admins_token_is_no_providers_role(gateway: Gateway) -> None:
    """He would have no hardware of his own."""
    assert 403 == gateway.get(OWN, OPERATOR).status_code


@pytest.mark.parametrize("path", [GPU, SPLITS, OWN])
def test_a_write_says_which_version_it_changes(gateway: Gateway, path: str) -> None:
    """Of two who change at once, the second sees what the first has done before he undoes it."""
    assert '"1"' == gateway.get(path, WHO[path]).headers["ETag"]
    missing, malformed = put(gateway, path, BODIES[path], None), put(gateway, path, BODIES[path], "*")
    assert [(428, "If-Match"), (400, "If-Match")] == [(each.status_code, each.json()["field"]) for each in (missing, malformed)]
    first, second = put(gateway, path, BODIES[path]), put(gateway, path, BODIES[path])
    assert (200, '"2"', 412, 2) == (first.status_code, first.headers["ETag"], second.status_code, second.json()["newest"])


def test_what_is_written_is_read_again_exactly(gateway: Gateway) -> None:
    """Also a zero is a price, and what is left out stays."""
    said = put(gateway, GPU, '{"models": {"L4-24GB": 0.3, "A100-80GB": "2.000001", "T4": 0}, "base_rate": "0.5"}').json()
    wanted = {
        "models": {"L4-24GB": "0.300000", "A100-80GB": "2.000001", "T4": "0.000000"},
        "base_rate": "0.500000",
        "vram_rate": "1.000000",
    }
    assert (wanted, wanted) == (said["prices"], said["now"])
    put(gateway, OWN, {"models": {"L4-24GB": "0.1"}}, '"2"')
    put(gateway, SPLITS, {"rentals": {"platform": "0.15", "payee": 0.85}}, '"3"')
    tariff = gateway.house.tariffs.history()[-1]
    assert ({"L4-24GB": 300_000, "A100-80GB": 2_000_001, "T4": 0}, 500_000, 1_000_000) == (
        tariff.org_models,
        tariff.base_rate,
        tariff.vram_rate,
    )
    assert ({"provider:acme": {"L4-24GB": 100_000}}, 150_000, 100_000) == (
        tariff.providers,
        tariff.splits.rental_fee_ppm,
        tariff.splits.call_fee_ppm,
    )
    zoe = ACME | {"X-User-Id": "zoe"}
    assert {} == gateway.get(OWN, zoe).json()["prices"]["models"], "a provider sees his own prices alone"
    put(gateway, OWN, {"models": {}}, '"4"')
    assert {} == gateway.house.tariffs.history()[-1].providers


def test_a_user_whose_id_reads_as_another_owner_neither_sees_nor_changes_that_ones_prices(gateway: Gateway) -> None:
    """An id may hold a colon."""
    put(gateway, OWN, {"models": {"L4-24GB": "0.1"}})
    posing = ACME | {"X-User-Id": "provider:acme"}
    assert {} == gateway.get(OWN, posing).json()["prices"]["models"]
    assert 200 == put(gateway, OWN, {"models": {"L4-24GB": "9"}}, '"2"', posing).status_code
    assert {"L4-24GB": "0.100000"} == gateway.get(OWN, ACME).json()["prices"]["models"]


def test_every_change_is_kept_with_who_when_from_and_to(gateway: Gateway) -> None:
    """An argument about a price is settled by looking."""
    put(gateway, GPU, {"models": {"T4": 1}})
    put(gateway, OWN, {"models": {"T4": 2}}, '"2"')
    put(gateway, GPU, {"models": {"T4": 3}}, '"3"', OPERATOR | {"X-User-Id": "root"})
    first, second = gateway.get(GPU, OPERATOR).json()["changes"]
    assert ("admin", {}, {"T4": "1.000000"}) == (first["by"], first["before"]["models"], first["after"]["models"])
    assert ("root", {"T4": "1.000000"}, {"T4": "3.000000"}, 4) == (
        second["by"], second["before"]["models"], second["after"]["models"], second["version"],
    )  # fmt: skip
    assert first["at"] <= second["at"]
    (own,) = gateway.get(OWN, ACME).json()["changes"]
    assert ("acme", "2.000000") == (own["by"], own["after"]["models"]["T4"])


def later(gateway: Gateway, hours: int) -> str:
    from runtimes.http.bodies.views import instant

    said = instant(gateway.house.clock.now() + Span.of(hours=hours))
    assert said is not None
    return said


def test_a_change_holds_for_what_is_placed_from_then_on(gateway: Gateway) -> None:
    """What runs keeps its price, and a price that is announced does not hold before its day."""
    put(gateway, GPU, {"models": {"A100-80GB": 40}, "effective": later(gateway, 24)})
    said = gateway.get(GPU, OPERATOR).json()
    assert ({"A100-80GB": "40.000000"}, {}) == (said["prices"]["models"], said["now"]["models"])
    fleet, slots = fold(gateway.house.nodes.list(), ()), (Slot("n1", 0, Mib(40 * 1024)),)

    def costs(at: Instant) -> int:
        return rate(price(slots, fleet, gateway.house.tariffs.in_force(at), "alice")).numerator

    now = gateway.house.clock.now()
    assert (40_000_000, 20_000_000) == (costs(now), costs(now + Span.of(hours=25)))


def test_a_change_may_begin_before_one_that_is_announced_and_neither_undoes_the_other(gateway: Gateway) -> None:
    """Else whoever announces a price would keep everybody else from changing his."""
    tomorrow = later(gateway, 24)
    put(gateway, OWN, {"models": {"T4": "0.1"}, "effective": tomorrow})
    said = put(gateway, GPU, {"models": {"T4": 1}}, '"2"').json()
    assert ({"T4": "1.000000"}, {"T4": "1.000000"}, 4) == (said["now"]["models"], said["prices"]["models"], said["version"])
    own = gateway.get(OWN, ACME).json()
    assert ({}, {"T4": "0.100000"}, 1) == (own["now"]["models"], own["prices"]["models"], len(own["changes"]))
    assert (4, tomorrow[:-1]) == (own["version"], own["effective"][: len(tomorrow) - 1])
    first, second = gateway.get(GPU, OPERATOR).json()["changes"]
    assert [3, 4] == [first["version"], second["version"]]
    assert [({}, {"T4": "1.000000"})] * 2 == [(each["before"]["models"], each["after"]["models"]) for each in (first, second)]
    assert first["effective"] > second["effective"] >= second["at"]


def test_a_provider_announces_no_more_than_a_few_changes_and_none_far_ahead(gateway: Gateway) -> None:
    """Each change of anybody is carried into every list that is announced."""
    refused = put(gateway, OWN, {"models": {"T4": 1}, "effective": later(gateway, 24 * 32)})
    assert (400, "effective") == (refused.status_code, refused.json()["field"])
    first = later(gateway, 24 * 30)
    assert 200 == put(gateway, OWN, {"models": {"T4": 1}, "effective": first}).status_code
    assert 200 == put(gateway, OWN, {"models": {"T4": 2}, "effective": later(gateway, 24 * 20)}, '"2"').status_code
    version = gateway.get(OWN, ACME).headers["ETag"]
    refused = put(gateway, OWN, {"models": {"T4": 3}, "effective": later(gateway, 24 * 10)}, version)
    assert (400, "effective") == (refused.status_code, refused.json()["field"])
    assert first[:10] in refused.json()["remedy"]
    assert 200 == put(gateway, OWN, {"models": {"T4": 3}, "effective": first}, version).status_code
    assert (
        200
        == put(
            gateway, GPU, {"models": {"T4": 1}, "effective": later(gateway, 24 * 365)}, gateway.get(OWN, ACME).headers["ETag"]
        ).status_code
    )


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (GPU, '{"models": {"T4": NaN}}', "models.T4"),
        (GPU, '{"models": {"T4": Infinity}}', "models.T4"),
        (GPU, '{"models": {"T4": 1e308}}', "models.T4"),
        (GPU, '{"models": {"T4": "1e3"}}', "models.T4"),
        (GPU, '{"models": {"T4": -0.1}}', "models.T4"),
        (GPU, '{"models": {"T4": 0.0000001}}', "models.T4"),
        (GPU, '{"models": {"T4": 1000001}}', "models.T4"),
        (GPU, '{"models": {"T4": "$3"}}', "models.T4"),
        (GPU, '{"models": {"T4": "3 EUR"}}', "models.T4"),
        (GPU, '{"models": {"T4": true}}', "models.T4"),
        (GPU, '{"models": {"T4": null}}', "models.T4"),
        (GPU, '{"models": {"": 1}}', "models."),
        (GPU, '{"models": {}, "base_rate": -1}', "base_rate"),
        (GPU, '{"models": {}, "vram_rate": "NaN"}', "vram_rate"),
        (GPU, "{}", "models"),
        (GPU, '{"models": {}, "price": 1}', "price"),
        (GPU, '{"models": {}, "effective": "2020-01-01T00:00:00Z"}', "effective"),
        (GPU, '{"models": {}, "effective": "2050-01-01T00:00:00Z"}', "effective"),
        (GPU, '{"models": {}, "effective": "2027-02-30"}', "effective"),
        (GPU, '{"models": {}, "effective": "2027-02-03T00:00:00"}', "effective"),
        (GPU, '{"models": {}, "effective": "tomorrow"}', "effective"),
        (OWN, '{"models": {"T4": 1e308}}', "models.T4"),
        (OWN, '{"models": {"T4": -1}}', "models.T4"),
        (SPLITS, '{"rentals": {"platform": 0.1, "payee": 0.8}}', "rentals"),
        (SPLITS, '{"calls": {"platform": 0.1, "payee": 0.9000001}}', "calls.payee"),
        (SPLITS, '{"calls": {"platform": 1.1, "payee": -0.1}}', "calls.platform"),
        (SPLITS, '{"calls": {"platform": NaN, "payee": 1}}', "calls.platform"),
        (SPLITS, '{"calls": {"platform": "10 %", "payee": "90 %"}}', "calls.platform"),
        (SPLITS, '{"calls": {"platform": 1}}', "calls.payee"),
    ],
)
def test_what_is_no_price_is_refused_with_its_field(gateway: Gateway, path: str, body: str, field: str) -> None:
    """A slip of the keyboard becomes nobody's bill."""
    answer = put(gateway, path, body)
    assert (400, field) == (answer.status_code, answer.json()["field"]), answer.text
    assert answer.json()["remedy"]
    assert 1 == len(gateway.house.tariffs.history())
