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

from gridweave.errors import Cancelled, GridweaveError, JobFailed, Refused, sentence
from gridweave.jobs import TERMINAL

PHASE_STYLES = {
    "Pending": "yellow",
    "Allocated": "cyan",
    "Running": "bold cyan",
    "Closing": "cyan",
    "Completed": "green",
    "Failed": "bold red",
    "Cancelled": "magenta",
}


class Unheard(GridweaveError):  # noqa: N818 - as its family's other names
    """Nobody takes the output any more: its reader has gone, or it cannot be written. gone: which of the two."""

    def __init__(self, message: str, gone: bool) -> None:
        super().__init__(message)
        self.gone = gone


class TimeIsUp(GridweaveError):  # noqa: N818 - as its family's other names
    """What was waited for did not come within the time that was given; 124 is what timeout(1) exits with then."""

    def __init__(self, message: str, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class Stopped(GridweaveError):  # noqa: N818 - as its family's other names
    """A signal other than Ctrl-C's ended the command. number: of that signal; remedy: how to find the job again."""

    def __init__(self, message: str, number: int, job_id: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.number, self.job_id, self.remedy = number, job_id, remedy


def unheard(error: OSError, consequence: str = "") -> Unheard:
    """From what writing raised. consequence: a sentence without its stop."""
    gone = isinstance(error, BrokenPipeError)
    why = "The reader of the output has gone." if gone else f"The output cannot be written: {error.strerror or error}."
    return Unheard(f"{why} {consequence}." if consequence else why, gone)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """rich would exit with code 1; what the code is, is for the command to say."""
        raise BrokenPipeError


class Output:
    """json: whether stdout carries JSON and nothing else."""

    def __init__(self, json: bool) -> None:
        self.json = json
        self.console = _Console()
        self._errors = _Console(stderr=True)

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
        remedy = error.remedy if isinstance(error, (Refused, Stopped)) else ""
        message = error.message if isinstance(error, Refused) else str(error)
        self._errors.print(Text(f"error: {sentence(message)}", style="bold red"), soft_wrap=True)
        if remedy:
            self._errors.print(Text(remedy), soft_wrap=True)
        if isinstance(error, JobFailed):
            for note in getattr(error, "__notes__", ()):
                self._errors.print(Text(note), soft_wrap=True)
        if self.json:
            self.emit({"error": error_facts(error)})


def common_facts(error: BaseException, job_id: str = "") -> dict[str, Any]:
    """What JSON tells of any error, also of one that a user's function raised: "" where there is nothing to say."""
    return {"kind": type(error).__name__, "message": str(error), "id": job_id, "field": "", "value": "", "remedy": ""}


def error_facts(error: GridweaveError) -> dict[str, Any]:
    """An error of ours as JSON: the same keys for every kind, then what only this kind has."""
    common = common_facts(error)
    if isinstance(error, Refused):
        own = {"kind": error.kind, "message": error.message, "field": error.field, "value": error.value, "remedy": error.remedy}
        return {**common, **own, "id": error.value if error.field == "id" else "", **error.facts}
    if isinstance(error, (JobFailed, Cancelled)):
        common |= {"id": error.job_id, "reason": error.reason}
    if isinstance(error, TimeIsUp):
        common |= {"kind": "timeout", "id": error.job_id}
    if isinstance(error, Stopped):
        common |= {"kind": "stopped", "id": error.job_id, "remedy": error.remedy}
    if isinstance(error, JobFailed):
        common |= {"exit": error.kind, "code": error.code, "signal": error.signal, "log_tail": error.log_tail}
    return common


def grid(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table for a terminal."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def phase(name: str, cancelling: bool = False) -> Text:
    """A phase in its colour, and whether the job is being cancelled."""
    return Text(f"{name}, cancelling" if cancelling else name, style=PHASE_STYLES.get(name, ""))


def cancelling(job: Mapping[str, Any]) -> bool:
    """Whether its end was asked for and has not come yet."""
    return bool(job.get("cancel_requested_at")) and job.get("phase") not in TERMINAL


def _flat(cell: str | Text) -> str:
    return " ".join((cell.plain if isinstance(cell, Text) else cell).split())
