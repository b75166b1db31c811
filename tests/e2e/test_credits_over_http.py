"""The same house with its money elsewhere: balances and usage events in a service of their own, over HTTP."""

from __future__ import annotations

import base64
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from typing import Any

import gridweave as gw
import httpx
import pytest
from attrs import frozen

from adapters.ray.embedded import local_ray
from adapters.remote.credits import RemoteCredits, line_to_credits
from ports.credits import user_account
from ports.units import Credits
from tests import sinks
from tests.contract.credits_process import TOKEN, CreditsProcess
from tests.e2e.closed_form import charged, cost
from tests.e2e.gateways import ROOT, SOURCES, Gateway
from tests.e2e.rig import end_all, spawned_by, until
from tests.e2e.secrecy import canaries, check_left, check_standing


@frozen
class Site:
    gateway: Gateway
    service: CreditsProcess
    client: gw.Client
    credits: RemoteCredits

    def events(self) -> list[dict[str, Any]]:
        """All usage events so far."""
        url, bearer = f"{self.service.url}/v1/events?limit=5000", {"Authorization": f"Bearer {TOKEN}"}
        events: list[dict[str, Any]] = httpx.get(url, headers=bearer, trust_env=False).json()["events"]
        return events

    def verified(self) -> dict[str, Any]:
        """What `gridweave-credits verify` says, beside the running service."""
        env = {"PYTHONPATH": SOURCES, "STATE_DIR": str(self.service.folder), "ADMIN_TOKEN": TOKEN, "PATH": ""}
        command = [sys.executable, "-m", "runtimes.credits", "verify", "--json"]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        said: dict[str, Any] = json.loads(done.stdout)
        return said


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("http")
    service = CreditsProcess(home / "credits")
    service.start()
    money = {"CREDITS": "http", "CREDIT_SERVICE_URL": service.url, "METERING_URL": service.url, "BILLING_TICK_SECONDS": "1"}
    money |= {"EXPOSURE_LIMIT": "0.01"}  # less than two seconds of 24 GB
    gateway = Gateway(home / "state", {"ADMIN_TOKEN": TOKEN, **money}, ("--demo-fleet", "1x2xA100-80GB:org"))
    try:
        gateway.start()
        gateway.ready()
        with gw.Client(gateway.url) as client, closing(line_to_credits(service.url, TOKEN)) as line:
            yield Site(gateway, service, client, RemoteCredits(line))
            end_all(client)
        known = canaries(gateway.state, ("org-1",))
        check_standing(gateway, known, gateway.state / "ray", sinks.answers(service.url, TOKEN))
        assert 0 == gateway.stop()
        assert 0 == service.stop()
    finally:
        gateway.stop()
        local_ray(home / "state" / "ray").stop(runs=True)
        service.kill()
    check_left(home, known, (), "home/credits/service.log", "home/credits/credits.db", "home/state/gateway.log")


def sleeps(seconds: float) -> None:
    import time

    time.sleep(seconds)


def settled(job: Any) -> dict[str, Any]:
    status: dict[str, Any] = until(lambda: said if (said := job.status())["phase"] == "Completed" else None, "it is settled")
    return status


def test_a_job_is_billed_over_http_to_the_micro_credit(site: Site) -> None:
    """Wherever the balances are kept, the bill is the same."""
    job = spawned_by(site.client, sleeps, 2.2, vram="24GB")
    until(lambda: any(each["type"].endswith("tick") for each in site.events()), "a tick was told")
    assert "24.000000" == site.client.account()["held"]
    status = settled(job)
    assert Credits(0) < cost(status, 24) == charged(status)
    demo = site.credits.account(user_account("demo"))
    assert (Credits.parse("1000") - charged(status), Credits(0)) == (demo.balance, demo.held)
    assert charged(status) == site.credits.account("org").balance
    assert not (site.gateway.state / "credits.db").exists(), "nothing is kept twice"
    assert site.verified()["sound"]


def test_admins_see_the_last_billing_round(site: Site) -> None:
    """A biller that has stopped is seen before the money is missed."""
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def billed() -> bool:
        said = httpx.get(f"{site.gateway.url}/v1/admin/health", headers=headers, trust_env=False).json()
        return bool(said["ok"]) and "billing" in {each["name"] for each in said["rounds"]}

    until(billed, "a round has ended")


def test_usage_is_told_tick_by_tick_and_at_the_end(site: Site) -> None:
    """Whoever meters needs no access to anything else."""
    job = spawned_by(site.client, sleeps, 1.2, vram="24GB")
    status = settled(job)
    told = [each for each in site.events() if each["data"]["run"].startswith(status["id"])]
    assert ("io.gridweave.usage.final", status["ran_ms"]) == (told[-1]["type"], told[-1]["data"]["ran_ms"])
    assert charged(status).micro == told[-1]["data"]["micro_credits"]
    assert len(told) == len({each["id"] for each in told})


def test_a_service_that_is_killed_meanwhile_costs_nobody_anything(site: Site) -> None:
    """What ran while it was away is charged when it is back, and no job waits on a GPU for it."""
    before = site.credits.account(user_account("demo")).balance
    job = spawned_by(site.client, sleeps, 1.5, vram="24GB")
    until(lambda: job.status()["phase"] == "Running", "it runs")
    site.service.kill()
    until(lambda: job.status()["phase"] == "Closing", "it has ended")
    free = [gpu["free_mib"] == gpu["total_mib"] for node in site.client.resources()["nodes"] for gpu in node["gpus"]]
    assert [True, True] == free
    site.service.start()
    status = settled(job)
    assert cost(status, 24) == charged(status)
    assert before - charged(status) == site.credits.account(user_account("demo")).balance
    assert site.verified()["sound"]


CLIENT = {"python": platform.python_version(), "cloudpickle": version("cloudpickle")}


def submit(site: Site) -> httpx.Response:
    """As any client may, and without its patience."""
    inline = {"inline": base64.b64encode(b"what is refused is not looked at").decode()}
    body = {"function": inline, "args": inline, "vram": "24GB", "name": "late", "client": CLIENT}
    headers = {"X-User-Id": "demo", "X-User-Plan": "paid", "Idempotency-Key": "while-it-is-away"}
    answer = httpx.post(f"{site.gateway.url}/v1/jobs/submit", json=body, headers=headers, trust_env=False, timeout=60)
    assert 503 == answer.status_code, answer.text
    return answer


def test_while_the_service_is_away_new_work_waits_above_the_limit_and_is_taken_when_it_is_back(site: Site) -> None:
    """What runs goes on, and what it may come to owe is bounded: also a job that was funded before is not placed any more."""
    runs = spawned_by(site.client, sleeps, 60, vram="24GB", gpus=2, exclusive=True)
    until(lambda: runs.status()["phase"] == "Running", "it runs")
    waits = spawned_by(site.client, sleeps, 0.1, vram="24GB", gpus=2, exclusive=True)
    until(lambda: waits.status()["phase"] == "Pending" and waits.status()["waiting"], "it is funded, and waits for room")
    site.service.kill()
    refused = until(lambda: said if "need" in (said := submit(site)).json() else None, "he is above the limit")
    assert (503, "0.010000") == (refused.status_code, refused.json()["have"])
    assert int(refused.headers["Retry-After"]) > 0
    assert Credits.parse(refused.json()["need"]) > Credits.parse("0.01")
    assert "Running" == runs.status()["phase"]
    until(lambda: waits.status()["waiting"].startswith("Waits until what has run is charged"), "the scheduler knows how he stands")
    runs.cancel()
    until(lambda: runs.status()["phase"] == "Closing", "there is room")
    time.sleep(1.5)  # for a round in which it could be placed
    assert "Pending" == waits.status()["phase"]
    site.service.start()
    status = settled(waits)
    assert cost(status, 160) == charged(status)
    ended = until(lambda: said if (said := runs.status())["phase"] == "Cancelled" else None, "it is settled")
    assert Credits(0) < cost(ended, 160) == charged(ended)
    assert site.verified()["sound"]
