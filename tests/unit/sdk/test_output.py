"""Where a command's output goes: a reader that leaves, a full disk, the errors that scripts read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gridweave as gw
import pytest

from tests.unit.sdk.conftest import SDK
from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Cli, Program, Project

WORK = """
def chatter():
    import time
    print("first", flush=True)
    while True:
        print("more", flush=True)
        time.sleep(0.1)

def fail():
    raise ValueError("no luck")
"""


@pytest.fixture
def files(project: Project) -> Path:
    return project(work=WORK)


def shell(files: Path, line: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SDK), "GW": f"{sys.executable} -m gridweave"}
    return subprocess.run(["bash", "-c", line], cwd=files, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_a_reader_that_goes_away_ends_the_job(gateway: Gateway, files: Path) -> None:
    """As it would end a program on the laptop: nobody pays for a log that nobody reads."""
    done = shell(files, "$GW submit work.py:chatter | head -1; exit ${PIPESTATUS[0]}")
    assert (141, "first\n") == (done.returncode, done.stdout)
    assert "cancelling job job-" in done.stderr
    assert ["Cancelled"] == [run.phase for run in gateway.runs.values()]


def test_a_failed_job_is_failed_whoever_reads(gateway: Gateway, files: Path) -> None:
    """`set -o pipefail` must see it."""
    assert 1 == shell(files, "$GW submit work.py:fail 2>&1 | head -c 5; exit ${PIPESTATUS[0]}").returncode


def test_output_that_cannot_be_written_is_said(gateway: Gateway, files: Path) -> None:
    """A full disk is no fault of this program, and ends the job that it followed."""
    done = shell(files, "$GW submit work.py:chatter > /dev/full")
    assert 74 == done.returncode
    assert "The output cannot be written: No space left on device." in done.stderr
    assert ["Cancelled"] == [run.phase for run in gateway.runs.values()]
    assert 74 == shell(files, "$GW gpus > /dev/full").returncode


def test_a_failure_is_told_once(gateway: Gateway, files: Path, command: Program) -> None:
    """Its traceback is in the log that was streamed; a result that is asked for later has to show it."""
    done = command("submit", "work.py:fail")
    assert 1 == (done.stdout + done.stderr).count("Traceback (most recent call last)")
    later = command("result", next(iter(gateway.runs)))
    assert (1, 1, "") == (later.returncode, later.stderr.count("ValueError: no luck\n"), later.stdout)


def test_every_error_has_the_same_keys_in_json(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """A script should not have to know which kind it will be."""

    @gw.function
    def die() -> None:
        import os

        os._exit(3)

    job = die.spawn()
    errors = []
    for arguments in (["result", job.id], ["status", "job-x"], ["gpus", "--url", "nonsense"], ["ps", "--url", "http://127.0.0.1:9"]):
        cli([*arguments, "--json"])
        errors.append(json.loads(capsys.readouterr().out)["error"])
    assert all({"kind", "message", "id", "field", "value", "remedy"} <= set(error) for error in errors)
    assert [job.id, "job-x", "", ""] == [error["id"] for error in errors]
    assert ("job-x", "There is no job 'job-x'.") == (errors[1]["value"], errors[1]["message"])


def test_logs_are_cut_to_their_last_lines_and_never_silent_in_json(gateway: Gateway, capfd: pytest.CaptureFixture[str], cli: Cli) -> None:
    """The end of a long log is what is looked for; and no output at all is no JSON."""

    @gw.function
    def speak(lines: int) -> None:
        for each in range(lines):
            print("line", each)

    job = speak.spawn(5)
    job.result()
    for arguments in (["--tail", "2"], ["-n", "2", "-f"]):
        assert 0 == cli(["logs", job.id, *arguments])
        assert "line 3\nline 4\n" == capfd.readouterr().out
    silent = speak.spawn(0)
    silent.result()
    cli(["logs", silent.id, "--json"])
    assert {"id": silent.id, "text": ""} == json.loads(capfd.readouterr().out)


@pytest.mark.parametrize("name", ["submit", "ps", "bill"])
def test_each_command_tells_the_exit_codes(name: str, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """The README says so; and what is between < and > is not taken for markup."""
    cli([name, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "5 not found" in shown
    assert "provider:ID" in shown or name != "submit"
