"""A handle of a job: what it refuses to be made of, and how a wait for its value ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gridweave as gw
import pytest

from tests.unit.sdk.conftest import SDK
from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Cli, Project

WAITING = """
import sys
import gridweave as gw

@gw.function
def forever():
    import time
    time.sleep(600)

if __name__ == "__main__":
    job = forever.spawn()
    print(job.id, flush=True)
    job.result()
"""


@pytest.mark.parametrize("id", [None, 7, "", b"job-1"])
def test_a_handle_of_what_is_no_id_is_refused(gateway: Gateway, id: Any) -> None:
    """The id comes from a file or a database, where it may be missing: told here, and not by what quotes URLs."""
    with pytest.raises(TypeError, match=f"A job's id is a text, not {id!r}. Give the whole id") as caught:
        gw.Job(id)
    assert isinstance(caught.value, gw.Refused)
    assert {} == dict(gateway.calls)


def test_ctrl_c_in_a_wait_says_that_the_job_goes_on(gateway: Gateway, project: Project) -> None:
    """Sixty lines of HTTP say nothing of what became of a GPU."""
    folder: Path = project(waiting=WAITING)
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    process = subprocess.Popen(
        [sys.executable, "waiting.py"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    ident = process.stdout.readline().strip()
    while not gateway.calls["GET result"]:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert f"KeyboardInterrupt: job {ident} goes on; its value later: gw.Job('{ident}').result()" == said.splitlines()[-1]
    assert "httpx" not in said
    assert len(said.splitlines()) < 15
    assert ["Running"] == [run.phase for run in gateway.runs.values()]


@pytest.mark.parametrize("given", ["-1", "nan", "-inf"])
def test_a_time_that_cannot_be_waited_is_refused(gateway: Gateway, cli: Cli, capsys: pytest.CaptureFixture[str], given: str) -> None:
    """It would be taken for no time at all."""
    assert 2 == cli(["result", "job-1", f"--timeout={given}"])
    assert f"error: --timeout cannot be {given}.\nGive a number of seconds from 0.\n" == capsys.readouterr().err
    assert {} == dict(gateway.calls)
