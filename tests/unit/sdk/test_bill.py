"""The bill and what is left, in words that agree with one another."""

from __future__ import annotations

import json
from typing import Any

import gridweave as gw
import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Cli


@gw.function(name="train")
def train() -> None: ...


def posting(seq: int, job: str, ran_ms: int, amount: str, at: str = "2026-11-29T17:00:02.000Z") -> dict[str, Any]:
    own = {"seq": seq, "at": at, "job": job, "run": f"{job}/1", "kind": "charge"}
    return {**own, "amount": amount, "memo": "", "ran_ms": ran_ms}


@pytest.fixture
def ident(gateway: Gateway) -> str:
    found = train.spawn().id
    gateway.usage = [
        posting(1, found, 60_000, "-0.100000", "2020-01-01T00:00:00.000Z"),
        posting(2, found, 90_000, "-0.050000"),
        posting(3, "gone", 1_000, "-0.001000"),
    ]
    return found


def test_each_posting_says_for_how_long_and_for_which_job(ident: str, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """Running totals beside amounts that are none cannot be added up."""
    assert 0 == cli(["bill"])
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ["AT", "JOB", "NAME", "KIND", "MEMO", "RAN", "CREDITS"] == rows[0]
    assert [["train", "60.000 s"], ["train", "30.000 s"], ["", "1.000 s"]] == [[row[2], row[5]] for row in rows[1:4]]
    assert {"total": "-0.151000 credits", "balance": "999.996667 credits"}.items() <= dict(row for row in rows[4:]).items()
    assert ["available", "991.996667 credits"] in rows


def test_a_months_budget_is_told_beside_the_balance(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """Else nothing available beside a thousand credits reads like a fault."""
    budget = {"month": "2026-11", "zone": "UTC", "monthly": "10.000000", "spent": "2.000000", "resets": "2026-12-01T00:00:00.000Z"}
    gateway.account = {"available": "0.000000", "budget": budget}
    assert 0 == cli(["bill"])
    said = dict(line.split("\t")[:2] for line in capsys.readouterr().out.splitlines())
    assert "0.000000 credits (what the budget leaves)" == said["available"]
    words = "10.000000 credits, 2.000000 spent; a new one begins on 2026-12-01 UTC; raise it by PUT /v1/account/budget"
    assert words == said["budget of 2026-11"]


def test_a_long_bill_can_be_cut(ident: str, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """To its newest postings, or to those since a time; also as CSV."""
    for arguments, seqs in (
        (["--limit", "1"], [3]),
        (["--since", "2026-11-01"], [2, 3]),
        (["--since", "2019-12-31", "--limit", "2"], [2, 3]),
    ):
        assert 0 == cli(["bill", *arguments, "--json"])
        found = json.loads(capsys.readouterr().out)
        assert seqs == [entry["seq"] for entry in found["entries"]]
    assert "-0.051000" == found["total"]
    cli(["bill", "--csv", "--limit", "1"])
    assert ["seq", "3"] == [line.partition(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert 2 == cli(["bill", "--since", "yesterday"])
    assert "such as 2026-11-29" in capsys.readouterr().err


def test_an_estimate_tells_balance_and_available_apart(gateway: Gateway, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """The same word for two amounts looks like lost money."""
    cli(["estimate"])
    shown = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert ("1000.000000 credits", "992.000000 credits") == (shown["balance"], shown["available"])


def test_a_month_says_with_what_it_began_and_ended(ident: str, capsys: pytest.CaptureFixture[str], cli: Cli) -> None:
    """Whoever keeps accounts does so by the month."""
    assert 0 == cli(["bill", "--month", "2026-11", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert ([2, 3], "2026-11", "UTC") == ([entry["seq"] for entry in found["entries"]], found["month"], found["zone"])
    assert 0 == cli(["bill", "--month", "2026-11"])
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    told = [["opening", "1000.000000 credits"], ["sum of charge", "-0.051000 credits"], ["closing", "999.949000 credits"]]
    assert told == [row for row in rows if row[0] in ("opening", "sum of charge", "closing")], "opening + sums = closing"
    assert ["30.000 s", "1.000 s"] == [row[5] for row in rows[1:3]], "also of a run that began in another month"
    assert 2 == cli(["bill", "--month", "2026-11", "--since", "1d"])
