"""What an operator reads when something went wrong: the log, and the bundle for a bug report. Neither knows a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import gridweave as gw
import pytest

from adapters.ray.tokens import command_token, tail_token
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.e2e.gateways import ROOT, SOURCES
from tests.e2e.rig import NODES, Rig, until

PARTS = {"settings.json", "versions.json", "log.jsonl", "scheduler.json", "nodes.json", "phases.json", "unfinished.json", "journal.json"}
CANARY = "canary-of-a-user"
S3_CANARY = "s3-canary-0123456789"


def fails_with_a_secret(argument: str) -> None:
    import os

    print(argument, os.environ["MY_SECRET"], flush=True)
    raise ValueError(argument)


def bundle_of(rig: Rig, file: Path) -> dict[str, bytes]:
    env = {**os.environ, **rig.gateway.settings, "STATE_DIR": str(rig.gateway.state), "PYTHONPATH": SOURCES, "S3_SECRET_KEY": S3_CANARY}
    command = [sys.executable, "-m", "runtimes.http.gateway", "--debug-bundle", str(file)]
    subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, timeout=120)
    with zipfile.ZipFile(file) as bundle:
        return {name: bundle.read(name) for name in bundle.namelist()}


def lines(rig: Rig, workload: str) -> list[dict[str, Any]]:
    """What the log says of a job."""
    said = [json.loads(line) for line in rig.gateway.log.splitlines() if line.startswith("{")]
    return [each for each in said if each.get("workload") == workload]


def test_a_bundle_tells_everything_but_secrets(rig: Rig, tmp_path: Path) -> None:
    """It is mailed to strangers."""
    user = rig.user()
    failed = user.spawn(fails_with_a_secret, f"{CANARY}-argument", env={"env_vars": {"MY_SECRET": f"{CANARY}-variable"}})
    user.ended(failed)
    held = user.hold(vram="2GB", env={"env_vars": {"MY_SECRET": f"{CANARY}-variable"}})
    found = bundle_of(rig, tmp_path / "bundle.zip")
    assert set(found) == PARTS
    house = (rig.gateway.state / "secret").read_bytes()
    tokens = [of(house, node) for node in NODES for of in (command_token, tail_token)]
    secrets = [CANARY.encode(), S3_CANARY.encode(), house, *(each.encode() for each in (ADMIN_TOKEN, PLATFORM_TOKEN, *tokens))]
    whole = b"\n".join(found.values())
    assert [] == [secret for secret in secrets if secret in whole]
    assert [] == [secret for secret in secrets if secret in rig.gateway.log.encode()]
    told = {name: json.loads(data) for name, data in found.items() if name.endswith(".json")}
    assert held.id in {job["id"] for job in told["unfinished.json"]}
    assert 1 <= told["phases.json"]["Failed"]
    assert set(NODES) == {node["name"] for node in told["nodes.json"]}
    assert told["journal.json"]["audit"]["rows"] > 0
    assert "fault" not in told["journal.json"]["audit"]
    assert failed.id.encode() in found["log.jsonl"]
    user.release(held)


def test_the_log_names_workload_run_and_user(rig: Rig) -> None:
    """An operator is called with one of the three."""
    user = rig.user()
    job = user.spawn(lambda: 1 / 0)
    user.ended(job)
    until(lambda: len(lines(rig, job.id)) >= 2, "both lines are written")
    submitted, failed = lines(rig, job.id)
    assert ("submitted", user.id) == (submitted["event"], submitted["user"])
    assert ("failed", user.id, f"{job.id}/1", "Raised") == (failed["event"], failed["user"], failed["run"], failed["reason"])


def test_the_log_says_who_was_refused_and_why(rig: Rig) -> None:
    """Whoever calls has not kept his error message."""
    user = rig.user("poor", credits=None)
    with pytest.raises(gw.Refused):
        user.spawn(lambda: 1)
    said = [json.loads(line) for line in rig.gateway.log.splitlines() if user.id in line]
    refused = [each for each in said if each["event"] == "refused"]
    assert {("cannot-afford", 402)} == {(each["kind"], each["status"]) for each in refused}
    assert all(each["workload"].startswith("job-") for each in refused)


def test_a_bundle_that_cannot_be_written_says_so(rig: Rig, tmp_path: Path) -> None:
    """The next try should be the last."""
    env = {**os.environ, **rig.gateway.settings, "STATE_DIR": str(rig.gateway.state), "PYTHONPATH": SOURCES}
    command = [sys.executable, "-m", "runtimes.http.gateway", "--debug-bundle", str(tmp_path / "no" / "such" / "folder.zip")]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert 4 == done.returncode
    assert "No such file or directory" in done.stderr
