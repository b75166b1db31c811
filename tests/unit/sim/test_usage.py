"""Gridweave's own usage export as a trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import fields

from core.simulation.trace import Machine
from ports.errors import Invalid
from ports.tariffs import Tariff
from ports.units import Instant, Mib, Span
from runtimes.http.bodies.views import EntryView
from runtimes.sim.usage import COLUMNS, is_usage, read_usage, submissions

HEADER = "seq,at,account,job,run,kind,amount,memo,ran_ms\r\n"
FLEET = (Machine("n", "G2", 2, Mib(20_000)),)


def export(folder: Path, *rows: str) -> Path:
    path = folder / "usage.csv"
    path.write_text(HEADER + "".join(f"{at},{row}\r\n" for at, row in enumerate(rows)))
    return path


def test_the_columns_are_those_that_the_gateway_writes() -> None:
    """An export of today must be readable today."""
    assert set(COLUMNS) <= {each.name for each in fields(EntryView)}


def test_ticks_of_a_run_become_one_job_with_its_start_length_and_vram(tmp_path: Path) -> None:
    """8 GB for an hour are 8 credits, in however many postings."""
    path = export(
        tmp_path,
        "2026-11-29T17:00:00.000Z,user:ann,,,grant,100.000000,,0",
        "2026-11-29T17:30:00.000Z,user:ann,j1,j1/1,charge,-4.000000,,1800000",
        "2026-11-29T18:00:00.000Z,user:ann,j1,j1/1,charge,-4.000000,,3600000",
        "2026-11-29T18:00:00.000Z,provider:ann,j9,j9/1,charge,2.000000,,3600000",
        "2026-11-29T17:40:00.000Z,user:ann,j2,j2/1,charge,-10.000000,,1200000",
    )
    assert is_usage(path)
    first, second = submissions(read_usage(path), FLEET, Tariff(1, Instant(0), 0, 1_000_000), 0, 0.0, 2.0)
    assert (Instant(0), Span(3_600_000), Mib(8192), 1, "ann", "paid") == (
        first.at, first.ran, first.ask.mib, first.ask.gpus, first.user, first.plan,
    )  # fmt: skip
    assert (Instant(600_000), Span(1_200_000), Mib(15_360), 2) == (second.at, second.ran, second.ask.mib, second.ask.gpus)


def test_vram_cannot_be_told_from_cost_when_vram_is_free(tmp_path: Path) -> None:
    """Better a word than a division by zero."""
    path = export(tmp_path, "2026-11-29T17:30:00.000Z,user:ann,j1,j1/1,charge,-4.000000,,1800000")
    with pytest.raises(Invalid, match="vram-rate"):
        submissions(read_usage(path), FLEET, Tariff(1, Instant(0), 0, 0), 0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("yesterday,user:ann,j1,j1/1,charge,-4.000000,,1800000", "line 2, column at: 'yesterday'"),
        ("2026-11-29T17:30:00,user:ann,j1,j1/1,charge,-4.000000,,1800000", "line 2, column at"),
        ("2026-11-29T17:30:00.000Z,user:ann,j1,j1/1,charge,much,,1800000", "line 2: amount"),
        ("2026-11-29T17:30:00.000Z,user:ann,j1,j1/1,charge,-4.000000,,-1", "line 2, column ran_ms: '-1'"),
        ("2026-11-29T17:30:00.000Z,user:ann,,,grant,4.000000,,0", "has no charged runs"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(row: str, said: str, tmp_path: Path) -> None:
    """By file, line, column and value."""
    with pytest.raises(Invalid, match=said):
        read_usage(export(tmp_path, row))
