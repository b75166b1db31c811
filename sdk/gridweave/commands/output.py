"""How the commands speak: tables and colour on a terminal, tab-separated lines when piped, JSON alone with --json.

Only what was asked for goes to stdout; errors and remarks go to stderr.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gridweave.errors import GridweaveError, JobFailed, Refused

PHASE_STYLES = {
    "Pending": "yellow",
    "Allocated": "cyan",
    "Running": "bold cyan",
    "Closing": "cyan",
    "Completed": "green",
    "Failed": "bold red",
    "Cancelled": "magenta",
}


class Output:
    """json: whether stdout carries JSON and nothing else."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self.console = Console()
        self._errors = Console(stderr=True)

    @property
    def terminal(self) -> bool:
        return self.console.is_terminal

    def emit(self, facts: Any) -> None:
        """One JSON value, on a line of its own unless a person reads it."""
        sys.stdout.write(json.dumps(facts, indent=2 if self.terminal else None) + "\n")
        sys.stdout.flush()

    def line(self, text: str) -> None:
        """A line of the answer."""
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def remark(self, text: str) -> None:
        """What is good to know, but not the answer."""
        self._errors.print(Text(text, style="dim"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
        """Rows under headings."""
        if self.terminal:
            self.console.print(grid(columns, rows))
            return
        for row in (columns, *rows):
            self.line("\t".join(_flat(cell) for cell in row))

    def fields(self, facts: Mapping[str, str | Text]) -> None:
        """Names and values; those that are empty are left out."""
        shown = {name: value for name, value in facts.items() if str(value)}
        if not self.terminal:
            for name, value in shown.items():
                self.line(f"{name}\t{_flat(value)}")
            return
        table = Table.grid(padding=(0, 2))
        for name, value in shown.items():
            table.add_row(Text(name, style="dim"), value if isinstance(value, Text) else Text(value))
        self.console.print(table)

    def error(self, error: GridweaveError) -> None:
        """One red line, and below it what to do."""
        remedy = error.remedy if isinstance(error, Refused) else ""
        message = error.message if isinstance(error, Refused) else str(error)
        self._errors.print(Text(f"error: {message}", style="bold red"), soft_wrap=True)
        if remedy:
            self._errors.print(Text(remedy), soft_wrap=True)
        if isinstance(error, JobFailed):
            for note in getattr(error, "__notes__", ()):
                self._errors.print(Text(note), soft_wrap=True)
        if self.json:
            self.emit({"error": error_facts(error)})


def error_facts(error: BaseException) -> dict[str, Any]:
    """An error as JSON."""
    facts: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, Refused):
        facts = {"kind": error.kind, "message": error.message, "field": error.field, "value": error.value, "remedy": error.remedy}
        return {**facts, **error.facts}
    if isinstance(error, JobFailed):
        return {
            **facts,
            "job": error.job_id,
            "reason": error.reason,
            "exit": error.kind,
            "signal": error.signal,
            "log_tail": error.log_tail,
        }
    return facts


def grid(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table for a terminal."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def phase(name: str) -> Text:
    """A phase in its colour."""
    return Text(name, style=PHASE_STYLES.get(name, ""))


def _flat(cell: str | Text) -> str:
    return " ".join((cell.plain if isinstance(cell, Text) else cell).split())
