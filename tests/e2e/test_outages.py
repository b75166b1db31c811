"""What breaks is told and survived: Ray is away, the gateway is killed, an agent is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gridweave as gw
import httpx
import pytest
from gridweave.jobs import Job

from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.e2e.closed_form import charged, cost
from tests.e2e.gateways import Gateway
from tests.e2e.rig import ENDED, Rig, User, until
from tests.e2e.secrecy import canaries, check_left, check_standing
from tests.e2e.submits import body

NOBODY_LISTENS = "127.0.0.1:1"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose Ray does not answer."""
    settings = {
        "GATEWAY_HOST": "127.0.0.1",
        "PLATFORM_TOKEN": PLATFORM_TOKEN,
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "RAY_HEAD_ADDRESS": NOBODY_LISTENS,
    }
    gateway = Gateway(tmp_path_factory.mktemp("alone") / "state", settings)
    try:
        gateway.start()
        gateway.answers()
        yield gateway
        check_standing(gateway, known := canaries(gateway.state))
    finally:
        gateway.stop()
    check_left(gateway.state.parent, known)


def test_without_ray_the_gateway_is_healthy_and_not_ready(alone: Gateway) -> None:
    """A liveness probe must not restart it for somebody else's fault."""
    health, ready = httpx.get(f"{alone.url}/healthz", timeout=30), httpx.get(f"{alone.url}/readyz", timeout=30)
    assert (200, "ok") == (health.status_code, health.json()["status"])
    assert (503, False) == (ready.status_code, ready.json()["ready"])
    assert ready.json()["reasons"]
    for path in ("/version", "/metrics", "/openapi.json", "/docs"):
        assert 200 == httpx.get(f"{alone.url}{path}", timeout=30).status_code


def test_without_ray_jobs_are_taken_listed_and_cancelled(alone: Gateway) -> None:
    """Submitting is recording; the machines may come later."""
    headers = {"X-User-Id": "alice", "X-User-Plan": "paid", "X-Platform-Token": PLATFORM_TOKEN}
    with httpx.Client(base_url=alone.url, headers=headers, timeout=30) as alice:
        made = alice.post("/v1/jobs/submit", json=body(lambda: None))
        assert 202 == made.status_code, made.text
        path = f"/v1/jobs/{made.json()['id']}"
        assert "Pending" == alice.get(f"{path}/status").json()["phase"]
        assert 202 == alice.get(f"{path}/result").status_code
        assert b"" == alice.get(f"{path}/logs").content
        assert [made.json()["id"]] == [job["id"] for job in alice.get("/v1/jobs").json()["jobs"]]
        assert 202 == alice.post(f"{path}/cancel").status_code
        until(lambda: alice.get(f"{path}/status").json()["phase"] == "Cancelled", "cancelled without a cluster")


def long_run(path: str) -> str:
    """Says when it runs, ends when it is told to."""
    import os
    import time

    with open(f"{path}/started", "a") as file:
        file.write("once\n")
    print("before", flush=True)
    while not os.path.exists(f"{path}/go on"):
        time.sleep(0.02)
    print("after", flush=True)
    return "survived"


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    """A folder where a run and its test meet."""
    tmp_path.chmod(0o777)
    return tmp_path


def outlived(user: User, job: Job, meeting: Path) -> dict[str, Any]:
    """Let the run end; what is told of it then."""
    (meeting / "go on").touch()
    assert "survived" == job.result(timeout=120)
    status = user.ended(job)
    assert "once\n" == (meeting / "started").read_text()
    assert b"before\nafter\n" == user.log(job)
    assert ("Completed", 1) == (status["phase"], status["attempt"])
    return status


def test_a_run_outlives_a_gateway_that_is_killed_and_is_billed_once(rig: Rig, meeting: Path) -> None:
    """Every deployment restarts the gateway, and every machine may die."""
    user = rig.user()
    job = user.spawn(long_run, str(meeting), vram="24GB", owner="org")
    queued = [user.spawn(lambda n: n, n, owner="org") for n in range(2)]
    until((meeting / "started").exists, "it runs")
    rig.gateway.kill()
    rig.gateway.start()
    rig.gateway.ready()
    assert [0, 1] == [each.result(timeout=120) for each in queued]
    user.running(job)
    status = outlived(user, job, meeting)
    assert cost(status, 24) == charged(status)
    entries = [entry for entry in user.client.usage()["entries"] if entry["job"] == job.id]
    assert -charged(status).micro == sum(round(float(entry["amount"]) * 1_000_000) for entry in entries)
    assert "0.000000" == user.client.account()["held"]
    assert rig.credits.verify().sound


def test_a_run_that_ends_while_no_gateway_lives_is_closed_by_the_next_one(rig: Rig, meeting: Path) -> None:
    """Nothing waits for us, and nothing is lost without us."""
    user = rig.user()
    job = user.spawn(long_run, str(meeting), vram="24GB", owner="org")
    until((meeting / "started").exists, "it runs")
    rig.gateway.kill()
    (meeting / "go on").touch()
    runs = rig.gateway.state / "agents"
    until(lambda: any(runs.glob(f"*/runs/*{job.id}*/exit.json")), "it has ended on its node")
    rig.gateway.start()
    rig.gateway.ready()
    status = outlived(user, job, meeting)
    assert cost(status, 24) == charged(status)


def test_a_gateway_that_is_stopped_leaves_politely_and_its_followers_come_back(rig: Rig, meeting: Path) -> None:
    """A rolling update must not be seen by anybody."""
    user = rig.user()
    job = user.spawn(long_run, str(meeting))
    following = job.log_bytes(follow=True)
    assert b"before\n" == next(following)
    assert 0 == rig.gateway.stop()
    rig.gateway.start()
    rig.gateway.ready()
    (meeting / "go on").touch()
    assert b"after\n" == b"".join(following)
    outlived(user, job, meeting)


def agents_of(rig: Rig, node: str) -> list[int]:
    """Pids of what holds the lock of that node's agent folder."""
    folder = rig.gateway.state / "agents" / node
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name = Path(f"/proc/{pid}/cmdline").read_bytes()
            held = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        if name.startswith(b"ray::") and any(each.startswith(f"{folder}/") for each in held):
            found.append(int(pid))
    return found


def test_a_run_outlives_its_agent(rig: Rig, meeting: Path) -> None:
    """The agent is our program, and it will crash some day."""
    user = rig.user()
    job = user.spawn(long_run, str(meeting), vram="24GB", owner="org")
    until((meeting / "started").exists, "it runs")
    node = job.status()["placement"][0]["node"]
    (agent,) = agents_of(rig, node)
    os.kill(agent, signal.SIGKILL)
    until(lambda: (now := agents_of(rig, node)) and agent not in now, "Ray has brought the agent back")
    status = outlived(user, job, meeting)
    assert cost(status, 24) == charged(status)


def test_while_the_head_hangs_everything_else_goes_on(rig: Rig) -> None:
    """No request and no run waits for Ray."""
    gcs = rig.ray.nodes[0].gcs
    assert gcs is not None
    user = rig.user()
    os.kill(gcs.pid, signal.SIGSTOP)
    try:
        assert 200 == user.direct.get("/healthz").status_code
        job = user.spawn(lambda: "ran", owner="org")
        assert "ran" == job.result(timeout=60)
        assert "Completed" == user.ended(job)["phase"]
        assert 200 == user.direct.get("/v1/resources").status_code
    finally:
        os.kill(gcs.pid, signal.SIGCONT)
    assert "ran" == user.spawn(lambda: "ran").result(timeout=60)


def test_a_client_waits_out_a_gateway_that_is_restarted(rig: Rig) -> None:
    """A script that ran for a week must not end for a minute's outage."""
    user = rig.user()
    rig.gateway.kill()
    with pytest.raises(gw.Unavailable), gw.Client(rig.gateway.url, retry_for=0.5) as impatient:
        impatient.account()
    rig.gateway.start()
    job = user.spawn(lambda: 3)
    assert 3 == job.result(timeout=60)
    assert user.ended(job)["phase"] in ENDED
    rig.gateway.ready()
