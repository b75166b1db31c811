"""How jobs are found again: by the start of an id, by name, by label; and what completion offers."""

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
from tests.unit.sdk.running import Cli


@gw.function(name="filler-b", labels={"team": "a"})
def one() -> int:
    return 1


@gw.function
def two() -> int:
    return 2


def test_a_job_is_found_by_its_name_where_one_has_it(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """Names are what people remember; a guess between two would be worse than a question."""
    job = one.spawn()
    assert 0 == cli(["status", "filler-b", "--json"])
    assert job.id == json.loads(capsys.readouterr().out)["id"]
    again = one.spawn()
    for each in (job, again):
        each.result()
    assert 2 == cli(["status", "filler-b"])
    said = capsys.readouterr().err
    assert "2 jobs are named 'filler-b' or have an id that begins so; none of them is unfinished." in said
    for row in (f"{again.id}  Completed, submitted ", f"{job.id}  Completed, submitted "):
        before, found, said = said.partition(row)
        assert found, before


@gw.function(name="filler-b")
def waiting() -> None:
    import time

    time.sleep(600)


def test_of_a_name_the_only_unfinished_job_is_meant(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """From the second run on a name would be of no use; who cancels by name means what still runs."""
    one.spawn().result()
    job = waiting.spawn()
    assert 0 == cli(["status", "filler-b", "--json"])
    assert job.id == json.loads(capsys.readouterr().out)["id"]
    other = waiting.spawn()
    assert 2 == cli(["cancel", "filler-b"])
    assert "3 jobs are named 'filler-b' or have an id that begins so; 2 of them are unfinished." in capsys.readouterr().err
    other.cancel()
    assert 0 == cli(["cancel", "filler-b"])
    assert "Cancelled" == job.status()["phase"]


def test_no_guess_is_made_from_an_ids_start_or_between_users(gateway: Gateway, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """An administrator who cancels by a name that he uses himself would end somebody else's run."""
    one.spawn().result()
    job = waiting.spawn()
    assert 2 == cli(["cancel", "job-"])
    gateway.users[job.id] = "ann"
    assert 2 == cli(["cancel", "filler-b"])
    assert "Running" == job.status()["phase"]


def test_ps_filters_by_name_and_label(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """A list of a hundred jobs is no answer."""
    first, second = one.spawn(), two.spawn()
    for arguments, found in ((["--name", "two"], second), (["--label", "team=a"], first)):
        cli(["ps", "--all", *arguments, "--json"])
        assert [found.id] == [job["id"] for job in json.loads(capsys.readouterr().out)["jobs"]]
    assert 2 == cli(["ps", "--label", "team"])
    assert "Write it as KEY=VALUE." in capsys.readouterr().err


def test_a_job_that_goes_on_after_its_cancel_says_so(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """Plain "Running" reads as if nobody had asked."""

    @gw.function
    def forever() -> None:
        import time

        time.sleep(600)

    job = forever.spawn()
    gateway.runs[job.id].stubborn = True
    cli(["status", job.id])
    said = capsys.readouterr().out
    assert "phase\tRunning, cancelling\n" in said
    assert "charged\t0.003333 credits, for the 1 s that its node has told of\n" in said
    cli(["ps"])
    said = capsys.readouterr().out
    assert "\tRunning, cancelling\t" in said
    assert said.endswith("\t0.003333 at 1 s\n")


def test_what_is_held_is_shown_while_it_is(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """An ended job holds nothing."""
    job = one.spawn()
    job.result()
    cli(["status", job.id])
    assert "held" not in capsys.readouterr().out


def completed(folder: Path, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    from gridweave.commands.app import app

    (folder / "completion.sh").write_text(app.generate_completion(shell="bash"))  # noqa: S604 - the name of one
    program = folder / "gridweave"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gridweave "$@"\n')
    program.chmod(0o755)
    line = " ".join(f"'{word}'" for word in ("./gridweave", *words))
    script = f"source ./completion.sh; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _gridweave; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.replace("\\", "").split()


def test_completion_offers_files_phases_owners_and_ids(gateway: Gateway, tmp_path: Path) -> None:
    """What --install-completion is for."""
    (tmp_path / "t1.py").touch()
    assert ["t1.py"] == completed(tmp_path, "submit", "t1")
    assert ["Running"] == completed(tmp_path, "ps", "--phase", "Ru")
    assert ["Running,Pending"] == completed(tmp_path, "ps", "--phase", "Running,Pe")
    assert ["org", "provider", "self_host"] == completed(tmp_path, "estimate", "--owner", "")
    job = one.spawn()
    assert [job.id] == completed(tmp_path, "status", "job-")
