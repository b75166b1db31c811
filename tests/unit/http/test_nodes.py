"""The fleet as everybody sees it, and as operators declare it."""

from __future__ import annotations

from typing import Any

import pytest

from ports.nodes import NodeState
from tests.unit.http.conftest import ADMIN, ALICE, Gateway

OPERATOR = {"Authorization": f"Bearer {ADMIN}"}


def test_resources_show_each_gpu_with_what_is_booked(gateway: Gateway) -> None:
    """The bars of `gridweave gpus`."""
    gateway.node("p1", ("L4-24GB", 24), owner="provider:acme")
    gateway.start(gateway.submit(vram="30GB"))
    nodes = {node["name"]: node for node in gateway.get("/v1/resources").json()["nodes"]}
    first, second = nodes["n1"]["gpus"]
    assert (81920, 30720, 51200, 0, True, ["free", "paid"]) == tuple(
        first[name] for name in ("total_mib", "booked_mib", "free_mib", "quarantined_mib", "usable", "plans")
    )
    assert (81920, 0) == (second["free_mib"], second["booked_mib"])
    assert ("provider:acme", ["paid"], "L4-24GB") == (
        nodes["p1"]["owner"],
        nodes["p1"]["gpus"][0]["plans"],
        nodes["p1"]["gpus"][0]["model"],
    )


def test_what_can_not_be_used_says_so(gateway: Gateway) -> None:
    """Free VRAM on a node that can't be asked is no promise."""
    gateway.node("down", ("L4-24GB", 24), state=NodeState.UNREACHABLE)
    nodes = {node["name"]: node for node in gateway.get("/v1/resources").json()["nodes"]}
    assert ("Unreachable", False) == (nodes["down"]["state"], nodes["down"]["gpus"][0]["usable"])


def test_an_operator_declares_and_the_rest_stays(gateway: Gateway) -> None:
    """A drain must not hand the machine to another owner."""
    first = gateway.request("PUT", "/v1/admin/nodes", OPERATOR, json={"name": "n1", "owner": "provider:acme"}).json()
    second = gateway.request("PUT", "/v1/admin/nodes", OPERATOR, json={"name": "n1", "drain": True}).json()
    assert {"owner": "provider:acme", "drain": False, "gone": False} == first["spec"]
    assert {"owner": "provider:acme", "drain": True, "gone": False} == second["spec"]
    (listed,) = gateway.get("/v1/admin/nodes", OPERATOR).json()["nodes"]
    assert (second["spec"], "org", 2) == (listed["spec"], listed["owner"], len(listed["gpus"]))


def test_a_node_may_be_declared_before_it_joins(gateway: Gateway) -> None:
    """Its first minute must not be under the wrong owner."""
    made = gateway.request("PUT", "/v1/admin/nodes", OPERATOR, json={"name": "later", "owner": "provider:acme"})
    assert (200, "Unreachable", []) == (made.status_code, made.json()["state"], made.json()["gpus"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "N1"}, "name"),
        ({"name": "a..b"}, "name"),
        ({"name": "a" * 254}, "name"),
        ({"name": "n1", "owner": "acme"}, "owner"),
        ({"name": "n1", "drain": "yes"}, "drain"),
        ({"name": "n1", "gone": 1}, "gone"),
        ({"name": "n1", "gpus": 4}, "gpus"),
    ],
)
def test_a_malformed_declaration_is_refused(gateway: Gateway, body: dict[str, Any], field: str) -> None:
    """A typing error here drains a machine, or gives it away."""
    answer = gateway.request("PUT", "/v1/admin/nodes", OPERATOR, json=body)
    assert (400, field) == (answer.status_code, answer.json()["field"])
    assert 1 == len(gateway.house.nodes.list())


@pytest.mark.parametrize("role", ["user", "provider"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_nodes_are_for_admins(gateway: Gateway, method: str, role: str) -> None:
    """403, and nothing written."""
    answer = gateway.request(method, "/v1/admin/nodes", ALICE | {"X-User-Role": role}, json={"name": "n1", "drain": True})
    assert (403, "/problems/forbidden") == (answer.status_code, answer.json()["type"])
    assert not gateway.house.nodes.list()[0].spec.drain
