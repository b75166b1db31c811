"""A gateway whose ADMIN_TOKEN the real `gridweave-control` does not take: the operator's fault, told in words, and no user's."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.e2e.gateways import ROOT, SOURCES, Gateway
from tests.e2e.submits import body
from tests.kube.house import Control

WORDS = "the control service is not available: it does not take our ADMIN_TOKEN: set it here as it is set there"
OTHER_TOKEN = "another-token-than-the-control-services"


@pytest.fixture
def control(admin: Path, namespace: str, tmp_path: Path) -> Iterator[Control]:
    made = Control(tmp_path, {"ADMIN_TOKEN": ADMIN_TOKEN, "KUBECONFIG": str(admin), "KUBERAY_NAMESPACE": namespace})
    made.start()
    try:
        yield made
    finally:
        made.kill()


def settings(control: Control, token: str) -> dict[str, str]:
    """Of a process that has that token."""
    return {
        "STORE": "proxied",
        "KUBERAY_SERVICE_URL": control.url,
        "KUBECONFIG": "/dev/null",
        "ADMIN_TOKEN": token,
        "PLATFORM_TOKEN": PLATFORM_TOKEN,
        "SCHEDULER": "external",
        "CREDITS_ENABLED": "true",
        "GATEWAY_HOST": "127.0.0.1",
        "GATEWAY_URL": "http://127.0.0.1:1",
        "RAY_HEAD_ADDRESS": "127.0.0.1:1",
    }


def test_a_token_that_was_changed_at_one_end_is_told_to_the_operator_and_refuses_nobodys_job(control: Control, tmp_path: Path) -> None:
    """A 400 would send the user to look for the fault in his own request."""
    gateway = Gateway(tmp_path / "state", settings(control, ADMIN_TOKEN))
    gateway.start()
    headers = {"X-User-Id": "ann", "X-User-Plan": "paid", "X-Platform-Token": PLATFORM_TOKEN}
    try:
        gateway.answers()
        control.kill()
        control.settings = {**control.settings, "ADMIN_TOKEN": OTHER_TOKEN}
        control.start()
        refused = httpx.post(f"{gateway.url}/v1/jobs/submit", json=body(), headers=headers, timeout=30)
        assert (503, WORDS) == (refused.status_code, refused.json()["detail"])
        assert int(refused.headers["Retry-After"]) > 0
        assert WORDS in httpx.get(f"{gateway.url}/readyz", timeout=30).json()["reasons"]
        assert 200 == httpx.get(f"{gateway.url}/healthz", timeout=30).status_code
        assert WORDS in gateway.log
        assert [] == [token for token in (ADMIN_TOKEN, OTHER_TOKEN) if token in gateway.log + refused.text]
    finally:
        gateway.stop()


@pytest.mark.parametrize("command", ["bill", "sweep", "schedule"])
def test_a_process_that_can_not_begin_says_which_token_is_wrong(control: Control, tmp_path: Path, command: str) -> None:
    """A pod's log is all that its operator sees; its exit code is that of what is away."""
    env = {**os.environ, "PYTHONPATH": SOURCES, "STATE_DIR": str(tmp_path / "state"), **settings(control, OTHER_TOKEN)}
    done = subprocess.run(
        [sys.executable, "-m", "runtimes.batch", command], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert (4, WORDS) == (done.returncode, done.stderr.strip().splitlines()[-1])
