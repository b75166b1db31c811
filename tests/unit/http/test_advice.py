"""What an operator is told that he could move: only what may be moved, and nothing is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.http.conftest import ADMIN, ALICE, BOB, Gateway

OPERATOR = {"Authorization": f"Bearer {ADMIN}"}
FREE_BOB = BOB | {"X-User-Plan": "free"}


def told(gateway: Gateway, query: str = "") -> dict[str, Any]:
    answer = gateway.get(f"/v1/admin/advice{query}", OPERATOR)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def full(gateway: Gateway, **labels: str) -> str:
    """Each of two GPUs half taken, in two ways: what runs on n1 has these labels. A job waits for a whole node."""
    gateway.node("p1", ("A100-80GB", 80), owner="provider:acme")
    gateway.start(gateway.submit(vram="30GB", labels=labels, name="runs"))
    return gateway.submit(FREE_BOB, vram="1GB", gpus=2, exclusive=True, name="waits").id


def test_a_job_that_may_move_is_named_with_where_to(gateway: Gateway) -> None:
    """The operator has to know what to stop, and that it will find a place."""
    waiting = full(gateway, movable="true")
    (advice,) = told(gateway)["advice"]
    (move,) = advice["moves"]
    assert (waiting, "waits", "bob", 1, True, "") == tuple(advice[name] for name in ("job", "name", "user", "position", "found", "reason"))
    assert "2 idle GPUs of one node with 1024 MiB free each" == advice["wants"]
    assert ("runs", "alice") == (move["name"], move["user"])
    assert [("n1", 0, 30720)] == [(each["node"], each["gpu"], each["mib"]) for each in move["was"]]
    assert [("p1", 0, 30720)] == [(each["node"], each["gpu"], each["mib"]) for each in move["to"]]
    assert [("n1", 0), ("n1", 1)] == [(each["node"], each["gpu"]) for each in advice["placement"]]
    assert {"n1": 30720, "p1": 0} == {  # nothing was moved
        node["name"]: sum(gpu["booked_mib"] for gpu in node["gpus"]) for node in gateway.get("/v1/resources").json()["nodes"]
    }


@pytest.mark.parametrize("labels", [{}, {"movable": "no"}, {"removable": "true"}])
def test_what_nobody_declared_movable_stays(gateway: Gateway, labels: dict[str, str]) -> None:
    """Its user would lose hours of work."""
    full(gateway, **labels)
    answer = told(gateway)
    (advice,) = answer["advice"]
    assert (False, [], 0) == (advice["found"], advice["moves"], answer["movable"])
    assert "No plan with up to 3 moves would let it in." == advice["reason"]


def test_a_job_for_which_there_is_room_needs_no_moves(gateway: Gateway) -> None:
    """It waits for its turn, and to move others for it would be in vain."""
    gateway.submit(vram="1GB")
    (advice,) = told(gateway)["advice"]
    assert (True, [], 1) == (advice["found"], advice["moves"], len(advice["placement"]))


def test_one_job_may_be_asked_about(gateway: Gateway) -> None:
    """Its user has complained."""
    gateway.submit(vram="1GB", name="first")
    second = gateway.submit(vram="2GB", name="second")
    assert [(second.id, 2)] == [(each["job"], each["position"]) for each in told(gateway, f"?job={second.id}")["advice"]]
    assert ["first"] == [each["name"] for each in told(gateway, "?limit=1")["advice"]]
    assert 2 == told(gateway, "?limit=1")["waiting"]
    unknown = gateway.get("/v1/admin/advice?job=job-nobody", OPERATOR)
    assert (404, "job") == (unknown.status_code, unknown.json()["field"])


@pytest.mark.parametrize(("query", "field"), [("?job=../x", "id"), ("?limit=0", "limit"), ("?moves=4", "moves"), ("?all=1", "all")])
def test_a_malformed_question_is_refused(gateway: Gateway, query: str, field: str) -> None:
    """400, naming what is wrong."""
    answer = gateway.get(f"/v1/admin/advice{query}", OPERATOR)
    assert (400, field) == (answer.status_code, answer.json()["field"])


@pytest.mark.parametrize("role", ["user", "provider"])
def test_advice_is_for_admins(gateway: Gateway, role: str) -> None:
    """It tells what others run."""
    assert 403 == gateway.get("/v1/admin/advice", ALICE | {"X-User-Role": role}).status_code
