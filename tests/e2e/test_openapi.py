"""Whatever /openapi.json lets a client send, and much that it does not, is answered without a fault of ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.checks import not_a_server_error

from runtimes.http.openapi import document
from runtimes.version import VERSION
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.e2e.gateways import Gateway
from tests.e2e.secrecy import canaries, check_left, check_standing
from tests.e2e.submits import body

SCHEMA = schemathesis.openapi.from_dict(document(VERSION))
USER = {"X-User-Id": "alice", "X-User-Plan": "paid", "X-Platform-Token": PLATFORM_TOKEN}
ADMIN = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One of its own, without a Ray: what is submitted here waits."""
    settings = {
        "GATEWAY_HOST": "127.0.0.1",
        "PLATFORM_TOKEN": PLATFORM_TOKEN,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "RAY_HEAD_ADDRESS": "127.0.0.1:1",
    }
    gateway = Gateway(tmp_path_factory.mktemp("openapi") / "state", settings)
    try:
        gateway.start()
        gateway.answers()
        yield gateway
        check_standing(gateway, known := canaries(gateway.state))
    finally:
        gateway.stop()
    check_left(gateway.state.parent, known)


@pytest.fixture(scope="module")
def job_id(gateway: Gateway) -> str:
    """A job of the user's that is there."""
    made: dict[str, Any] = httpx.post(f"{gateway.url}/v1/jobs/submit", json=body(), headers=USER, timeout=30).json()
    return str(made["id"])


def test_the_document_is_the_one_that_is_served(gateway: Gateway) -> None:
    """Else the tests below test something else."""
    assert json.loads(json.dumps(document(VERSION))) == httpx.get(f"{gateway.url}/openapi.json", timeout=30).json()


@SCHEMA.exclude(path="/readyz").parametrize()  # its 503 is what it is for
@settings(max_examples=15, database=None)
def test_no_request_is_answered_by_a_fault_of_ours(gateway: Gateway, job_id: str, case: schemathesis.Case[Any]) -> None:
    """A 5xx is a bug, and an alarm at night."""
    if case.path_parameters.get("id") and len(str(case.path_parameters["id"])) % 2:
        case.path_parameters["id"] = job_id
    if "wait" in case.query or case.query.get("follow"):
        case.query = {**case.query, "wait": "0"} if "wait" in case.query else {}
    caller = ADMIN if case.path.startswith("/v1/admin") else USER
    response = case.call(base_url=gateway.url, headers=caller, timeout=60)
    case.validate_response(response, checks=[not_a_server_error], excluded_checks=[])
