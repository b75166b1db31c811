"""`gridweave-sim` as it is called: files in, a table and one JSON object out, errors that name what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runtimes.sim.app import main
from tests.unit.sim.samples import written

PNG = b"\x89PNG\r\n\x1a\n"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON object that is the last line of stdout."""
    code = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    assert 0 == code, err
    found = json.loads(out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_a_replay_accounts_for_every_job_and_credit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figures of one run must not contradict one another."""
    nodes, pods = written(tmp_path)
    found = run(capsys, "replay", nodes, pods, "--fee", "10", "--price", "T4=0.5,provider:amber:G2=0.75")["best_fit"]
    rows = [line.split(",") for line in Path(pods).read_text().splitlines()[1:]]
    assert sum(row[3] != "0" for row in rows) == found["jobs"]
    assert 0 < found["waited_jobs"] <= found["jobs"]
    assert found["wait_p50_s"] <= found["wait_p90_s"] <= found["wait_p99_s"] <= found["wait_max_s"]
    assert 0 < found["allocated"] <= found["allocated_peak"] <= 100
    money = {name: float(amount) for name, amount in found["revenue"].items() if name != "by_provider"}
    assert pytest.approx(sum(float(each) for each in found["revenue"]["by_provider"].values())) == money["providers"]
    assert pytest.approx(sum(money.values()) / 10, abs=1e-3) == money["platform"]


def test_the_same_seed_gives_the_same_figures_and_another_gives_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a difference between two policies, or two fleets, would prove nothing."""
    nodes, pods = written(tmp_path)
    first, again, other = (run(capsys, "replay", nodes, pods, "--seeds", seed)["best_fit"] for seed in ("3", "3", "4"))
    assert first == again
    assert first != other


def test_several_seeds_give_their_mean_and_each_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mean without its parts hides how much is chance."""
    nodes, pods = written(tmp_path)
    found = run(capsys, "replay", nodes, pods, "--seeds", "3-4")["best_fit"]
    alone = run(capsys, "replay", nodes, pods, "--seeds", "3")["best_fit"]
    assert alone == found["seeds"]["3"]
    assert pytest.approx(sum(each["wait_mean_s"] for each in found["seeds"].values()) / 2, abs=1e-3) == found["wait_mean_s"]


def test_more_gpus_of_a_provider_shorten_the_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The question that the command is for; what is asked for stays the same."""
    nodes, pods = written(tmp_path)
    without = run(capsys, "replay", nodes, pods)["best_fit"]
    more = run(capsys, "replay", nodes, pods, "--add", "4x8xG2:provider:acme")["best_fit"]
    assert more["jobs"] == without["jobs"]
    assert more["queue_mean"] < without["queue_mean"]
    assert "provider:acme" in more["revenue"]["by_provider"]


def test_without_providers_all_that_is_earned_is_orgs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--providers 0` means none."""
    nodes, pods = written(tmp_path)
    revenue = run(capsys, "replay", nodes, pods, "--providers", "0")["best_fit"]["revenue"]
    assert ("0.000000", {}) == (revenue["providers"], revenue["by_provider"])
    assert float(revenue["org"]) > 0


def test_fill_and_churn_give_per_cent_under_the_names_that_were_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts read them by policy, mark and load."""
    nodes, pods = written(tmp_path)
    filled = run(capsys, "fill", nodes, pods, "--seeds", "0-1")
    assert ["best_fit"] == list(filled)
    assert 50 < filled["best_fit"]["fill_100"] <= filled["best_fit"]["fill_130"] <= 100
    churned = run(capsys, "churn", nodes, pods, "--load", "0.50", "--load", "1.10", "--seeds", "0")
    assert ["0.50", "1.10"] == list(churned["best_fit"])
    assert 0 <= churned["best_fit"]["0.50"]["refused"] < churned["best_fit"]["1.10"]["refused"] < 100


def test_a_table_is_printed_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json nobody has to read JSON."""
    nodes, pods = written(tmp_path)
    assert 0 == main(["replay", nodes, pods])
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("26 GPUs", "best_fit", "wait, p99", "revenue of org"))


def test_pictures_are_drawn_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One call gives all four."""
    nodes, pods = written(tmp_path)
    folder = tmp_path / "new" / "pictures"
    run(capsys, "replay", nodes, pods, "--plot", str(folder))
    assert ["allocation.png", "gpus.png", "revenue.png", "waits.png"] == sorted(each.name for each in folder.iterdir())
    assert all(each.read_bytes().startswith(PNG) for each in folder.iterdir())


def test_without_matplotlib_the_error_says_what_to_install(tmp_path: Path) -> None:
    """It is told before the work begins, and all else works without it."""
    nodes, pods = written(tmp_path)
    code = "import sys; sys.modules['matplotlib'] = None; from runtimes.sim.app import main; sys.exit(main(sys.argv[1:]))"
    base = [sys.executable, "-c", code, "replay", nodes, pods]
    refused = subprocess.run([*base, "--plot", str(tmp_path / "pictures")], capture_output=True, text=True, check=False)
    assert (2, "") == (refused.returncode, refused.stdout)
    assert "pip install matplotlib " in refused.stderr
    assert 0 == subprocess.run(base, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "psychic"], "--policy 'psychic' is unknown"),
        (["--seeds", "9-1"], "--seeds '9-1'"),
        (["--seeds", ""], "--seeds ''"),
        (["--free-share", "1.5"], "--free-share must be from 0 to 1, not 1.5"),
        (["--providers", "nan"], "--providers must be from 0 to 1, not nan"),
        (["--fleet-share", "0"], "--fleet-share must be more than 0"),
        (["--fleet-share", "0.001"], "leaves no node"),
        (["--speed", "inf"], "--speed must be more than 0"),
        (["--days", "9-3"], "--days '9-3'"),
        (["--days", "900"], "Nothing came on the days 900-900"),
        (["--add", "20xA10"], "--add '20xA10' can't be read"),
        (["--add", "20xB7:org"], "how much VRAM 'B7' has is not known"),
        (["--add", "0x0xA10:org"], "out of range"),
        (["--add", "2xA10:them"], "'them' is no owner"),
        (["--price", "A10"], "--price 'A10' can't be read"),
        (["--price", "A10=cheap"], "--price is not an amount of credits"),
        (["--price", "A10=-1"], "--price must not be negative"),
        (["--price", "B7=1"], "no node has that model"),
        (["--fee", "101"], "--fee must be from 0 to 100"),
        (["--vram-rate", "-1"], "--vram-rate must not be negative"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which flag, which value, and what would be right; nothing on stdout."""
    nodes, pods = written(tmp_path)
    assert 2 == main(["replay", nodes, pods, *arguments])
    out, err = capsys.readouterr()
    assert "" == out
    assert said in err


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing mistake in a path is the commonest fault."""
    nodes, pods = written(tmp_path)
    assert 2 == main(["replay", nodes, f"{pods}.gz"])
    assert f"{pods}.gz can't be read" in capsys.readouterr().err
    assert 2 == main(["replay", pods, nodes])
    assert "line 1: needs one column 'sn'" in capsys.readouterr().err


def test_a_list_without_times_is_for_fill_and_churn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of the public pod lists is such a one: it says what to do with it instead."""
    nodes, _ = written(tmp_path)
    pods = tmp_path / "untimed.csv"
    pods.write_text("name,num_gpu,gpu_milli\np,1,500\nq,1,1000\n")
    assert 2 == main(["replay", nodes, str(pods)])
    assert "tells no times: it has no creation_time, deletion_time, scheduled_time. A replay needs them" in capsys.readouterr().err
    assert 0 < run(capsys, "fill", nodes, str(pods), "--seeds", "0")["best_fit"]["fill_100"]


def test_a_load_that_is_no_number_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Loads are kept as they were written, so they are checked by hand."""
    assert 2 == main(["churn", *written(tmp_path), "--load", "much"])
    assert "--load 'much' can't be used" in capsys.readouterr().err
