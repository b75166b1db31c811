"""What `--print-settings` shows: every setting with its value, source and meaning; secrets masked."""

from __future__ import annotations

import json
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table
from typed_settings.types import Secret

from runtimes.settings import Loaded, Settings, variable


def rows(loaded: Loaded) -> list[dict[str, str]]:
    """One row per variable, in the order of the class: name, value, source, meaning."""
    found = []
    for each in attrs.fields(Settings):
        name = variable(each)
        value = _shown(getattr(loaded.settings, each.name))
        found.append({"name": name, "value": value, "source": loaded.sources[name], "meaning": each.metadata["why"]})
    return found


def as_json(loaded: Loaded) -> str:
    return json.dumps(rows(loaded), indent=2)


def as_table(loaded: Loaded, console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("name", "value", "source", "meaning"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows(loaded):
        table.add_row(*(row[column] for column in ("name", "value", "source", "meaning")))
    console.print(table)


def _shown(value: Any) -> str:
    if isinstance(value, Secret):
        return "********" if value else ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)
