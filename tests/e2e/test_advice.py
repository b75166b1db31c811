"""`gridweave gpus --advise` beside a job that really waits and one that may move."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.canaries import ADMIN_TOKEN
from tests.e2e.gateways import SOURCES
from tests.e2e.rig import ACME, Rig, until


def gridweave(rig: Rig, *arguments: str) -> str:
    """stdout of the command line, as an operator at the gateway."""
    told = {"PYTHONPATH": SOURCES, "GRIDWEAVE_URL": rig.gateway.url, "GRIDWEAVE_API_KEY": ADMIN_TOKEN}
    line = [sys.executable, "-m", "gridweave", *arguments]
    return subprocess.run(line, env=os.environ | told, capture_output=True, text=True, timeout=60, check=True).stdout


def test_an_operator_sees_the_move_that_lets_a_waiting_job_in(rig: Rig) -> None:
    """And once that job has moved, as told, the other one runs."""
    user = rig.user()
    moves = user.hold(vram="4GB", labels={"movable": "true"})
    assert [ACME] == [slot["node"] for slot in moves.status()["placement"]]  # paid plans go to providers' hardware first
    waits = user.spawn(lambda: "in", owner="provider", vram="1GB", gpus=2, exclusive=True)

    def advised() -> dict[str, Any] | None:
        found = json.loads(gridweave(rig, "gpus", "--advise", "--json"))["advice"]
        return next((each for each in found if each["job"] == waits.id), None)

    advice = until(advised, "the job that waits is advised about")
    (move,) = advice["moves"]
    assert moves.id == move["job"]
    (to,) = move["to"]
    assert to["node"] != ACME
    assert [ACME, ACME] == [slot["node"] for slot in advice["placement"]]
    assert moves.id in gridweave(rig, "gpus", "--advise", "--job", waits.id[:12])
    assert "Running" == moves.status()["phase"]  # it was only told
    user.release(moves)
    assert "in" == waits.result(timeout=60)
