"""Every policy can be asked for by name, in `fill` and `churn`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.policies import PlacementPolicy
from runtimes.sim.app import main
from runtimes.sim.policies import LEDGERS
from tests.unit.sim.samples import written


def test_all_policies_of_production_are_compared_beside_two_that_nobody_would_run() -> None:
    """What can be set has to be what can be tried first."""
    assert {*(name.value for name in PlacementPolicy), "first_fit", "random"} == set(LEDGERS)


def test_best_fit_fills_more_than_any_gpu_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the order of these two were lost, so would be all that is read from the others."""
    names = [f"--policy={name}" for name in LEDGERS]
    assert 0 == main(["fill", *written(tmp_path), *names, "--seeds", "0-2", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(LEDGERS) == set(found)
    assert found["best_fit"]["fill_130"] > found["random"]["fill_130"]
    assert all(0 < each["fill_100"] <= each["fill_130"] <= 100 for each in found.values())


def test_churn_takes_policies_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two commands name them alike."""
    assert 0 == main(["churn", *written(tmp_path), "--policy", "balance", "--load", "1.10", "--seeds", "0", "--json"])
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["balance"]["1.10"]
    assert 0 < found["refused"] < 100
    assert 0 < found["allocated"] <= 100
