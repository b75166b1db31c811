"""Who may see what: every route with a job's id, for everybody there is; and how a caller proves who he is."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from gridweave.jobs import Job
from gridweave.payloads import Payload

from runtimes.version import VERSION
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.e2e.rig import Rig, User
from tests.e2e.submits import body

ROUTES = {
    "GET /v1/jobs/{id}/status": 200,
    "GET /v1/jobs/{id}/logs": 200,
    "GET /v1/jobs/{id}/result": 200,
    "POST /v1/jobs/{id}/cancel": 202,
}
CALLERS = ("nobody", "its user", "another user", "provider", "admin role", "admin token")
SEES = {"its user", "admin role", "admin token"}


def headers(caller: str, user: User) -> dict[str, str]:
    proof = {"X-Platform-Token": PLATFORM_TOKEN}
    return {
        "nobody": {},
        "its user": {"X-User-Id": user.id, "X-User-Plan": "free", **proof},
        "another user": {"X-User-Id": "mallory", "X-User-Plan": "paid", **proof},
        "provider": {"X-User-Id": "acme", "X-User-Role": "provider", "X-User-Plan": "paid", **proof},
        "admin role": {"X-User-Id": "root", "X-User-Role": "admin", **proof},
        "admin token": {"Authorization": f"Bearer {ADMIN_TOKEN}"},
    }[caller]


@pytest.fixture(scope="module")
def finished(standing_rig: Rig) -> tuple[User, Job]:
    """A job that ran on acme's hardware."""
    user = standing_rig.user("owner")
    job = user.spawn(lambda: print("private"), provider="acme")
    user.ended(job)
    return user, job


def ask(rig: Rig, route: str, job_id: str, **rest: Any) -> httpx.Response:
    method, path = route.split(" ")
    return httpx.request(method, f"{rig.gateway.url}{path.replace('{id}', job_id)}", timeout=30, **rest)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("route", ROUTES)
def test_a_job_is_there_for_its_user_and_admins_and_for_nobody_else(rig: Rig, finished: tuple[User, Job], route: str, caller: str) -> None:
    """Not even its existence may be learnt, also by him whose hardware it ran on."""
    user, job = finished
    said = ask(rig, route, job.id, headers=headers(caller, user))
    expected = 401 if caller == "nobody" else ROUTES[route] if caller in SEES else 404
    assert expected == said.status_code, said.text
    if expected == 404:
        unknown = ask(rig, route, "job-22222222222222222222", headers=headers(caller, user))
        assert unknown.text.replace("job-22222222222222222222", job.id) == said.text, "they differ in the id alone"


@pytest.mark.parametrize("caller", CALLERS)
def test_a_followed_log_is_no_way_around_it(rig: Rig, finished: tuple[User, Job], caller: str) -> None:
    """A stream begins before it can be refused, if one is careless."""
    user, job = finished
    said = ask(rig, "GET /v1/jobs/{id}/logs", job.id, headers=headers(caller, user), params={"follow": "true"})
    assert (401 if caller == "nobody" else 200 if caller in SEES else 404) == said.status_code
    assert (caller in SEES) == ("private" in said.text)


def test_every_route_with_an_id_is_in_this_matrix(rig: Rig) -> None:
    """A new route must not be forgotten here."""
    paths = httpx.get(f"{rig.gateway.url}/openapi.json", timeout=30).json()["paths"]
    with_id = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods if "{id}" in path}
    assert set(ROUTES) == with_id


def test_lists_show_the_callers_own_jobs_and_to_an_admin_anybodys(rig: Rig, finished: tuple[User, Job]) -> None:
    """A list is a route to ids, too."""
    user, job = finished

    def listed(caller: str, **params: str) -> list[str]:
        said = httpx.get(f"{rig.gateway.url}/v1/jobs", headers=headers(caller, user), params=params, timeout=30)
        return [each["id"] for each in said.json()["jobs"]]

    assert [job.id] == listed("its user")
    assert [] == listed("another user")
    assert [] == listed("provider")
    assert [job.id] == listed("admin token", user=user.id)
    assert job.id in listed("admin role")
    foreign = httpx.get(f"{rig.gateway.url}/v1/jobs", headers=headers("another user", user), params={"user": user.id}, timeout=30)
    assert 403 == foreign.status_code


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_operators_routes_are_for_operators(rig: Rig, finished: tuple[User, Job], method: str) -> None:
    """Whoever could declare owners could take the money of others."""

    def status(caller: str) -> int:
        content = {"json": {"name": "org-big"}} if method == "PUT" else {}
        return ask(rig, f"{method} /v1/admin/nodes", "", headers=headers(caller, finished[0]), **content).status_code

    assert {"nobody": 401, "its user": 403, "another user": 403, "provider": 403, "admin role": 200, "admin token": 200} == {
        caller: status(caller) for caller in CALLERS
    }


def test_an_upload_is_its_users_alone(rig: Rig) -> None:
    """Knowing a digest is no right to the bytes."""
    owner, thief = rig.user(), rig.user()
    size = 100_000

    def big() -> None:
        pass

    said = owner.spawn(lambda data: len(data), b"secret" * size)
    assert 6 * size == said.result(timeout=60)
    payload = Payload()
    payload.write(b"x" * size)
    reference = owner.client.upload(payload)
    payload.close()
    refused = thief.direct.post("/v1/jobs/submit", json=body(big, args=reference))
    assert 400 == refused.status_code, refused.text
    assert "args" in refused.json()["field"]
    assert [] == list(thief.client.jobs())
    assert 202 == owner.direct.post("/v1/jobs/submit", json=body(big, args=reference)).status_code


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ([("X-User-Id", "alice")], 401),
        ([("X-User-Id", "alice"), ("X-Platform-Token", "platform-token-of-others")], 401),
        ([("X-Platform-Token", PLATFORM_TOKEN)], 401),
        ([("Authorization", "Bearer admin-token-of-others")], 401),
        ([("X-User-Id", "alice"), ("X-User-Id", "bob"), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", "alice"), ("X-User-Role", "user"), ("X-User-Role", "admin"), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", ""), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", "al\x01ice"), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", "alice,bob"), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", "alice"), ("X-User-Role", "god"), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", "alice"), ("X-User-Plan", "gold"), ("X-Platform-Token", PLATFORM_TOKEN)], 400),
        ([("X-User-Id", "alice"), ("X-Platform-Token", PLATFORM_TOKEN)], 200),
    ],
    ids=lambda given: "+".join(f"{name}={value!r}" for name, value in given) if isinstance(given, list) else str(given),
)
def test_identity_counts_only_as_the_platform_sends_it(rig: Rig, given: list[tuple[str, str]], status: int) -> None:
    """Everything else is somebody who says that he is somebody."""
    said = httpx.get(f"{rig.gateway.url}/v1/jobs", headers=given, timeout=30)
    assert status == said.status_code, said.text
    assert PLATFORM_TOKEN not in said.text


@pytest.mark.parametrize(("version", "status"), [("0.9.9", 200), ("0.0.0-rc.1", 200), ("1.0.0", 426), ("banana", 400), ("", 400)])
def test_a_client_of_another_major_version_is_told_how_to_upgrade(rig: Rig, version: str, status: int) -> None:
    """It would misread what it is told."""
    user = rig.user()
    said = user.direct.get("/v1/jobs", headers={"X-SDK-Version": version})
    assert status == said.status_code
    if status == 426:
        assert ("1.0.0", VERSION) == (said.json()["client"], said.json()["server"])
        assert "pip install" in said.json()["remedy"]
