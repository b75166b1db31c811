"""What `--print-settings` shows: every setting with its value, source and meaning, and what is wrong with it; secrets masked."""

from __future__ import annotations

import json
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from typed_settings.types import Secret

from runtimes.settings import Loaded, Settings, variable

_COLUMNS = ("name", "value", "source", "meaning")


def rows(loaded: Loaded) -> list[dict[str, str]]:
    """One row per variable, in the order of the class: name, value, source, meaning, and problem, "" if there is none."""
    problems = {each.field: each for each in loaded.wrong}
    found = []
    for each in attrs.fields(Settings):
        name = variable(each)
        wrong = problems.get(name)
        value = _shown(getattr(loaded.settings, each.name)) if wrong is None else wrong.value
        problem = "" if wrong is None else str(wrong)
        found.append({"name": name, "value": value, "source": loaded.sources[name], "meaning": each.metadata["why"], "problem": problem})
    return found


def as_json(loaded: Loaded) -> str:
    return json.dumps(rows(loaded), indent=2)


def as_text(loaded: Loaded) -> str:
    """Columns for a pipe: one line per setting, however long."""
    lines = [tuple(each[name] for name in _COLUMNS) for each in rows(loaded)]
    widths = [max(len(each[at]) for each in (_COLUMNS, *lines)) for at in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(each, widths, strict=True)).rstrip() for each in (_COLUMNS, *lines))


def as_table(loaded: Loaded, console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows(loaded):
        table.add_row(*(row[column] for column in _COLUMNS))
    console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, Secret):
        return "********" if value else ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
