"""`gpus --advise`: what an operator could move to let waiting jobs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridweave.commands.output import Output
from gridweave.progress import place

_COLUMNS = ("WAITING", "USER", "WANTS", "MOVE", "OF", "FROM", "TO")


def advised(output: Output, facts: Mapping[str, Any]) -> int:
    """A row per move; a waiting job that needs none, or for which none was found, has a row of its own."""
    if output.json:
        output.emit(dict(facts))
        return 0
    if not facts["advice"]:
        output.remark("No job waits.")
        return 0
    output.table(_COLUMNS, [row for each in facts["advice"] for row in _rows(each)])
    shown, waiting, movable = len(facts["advice"]), facts["waiting"], facts["movable"]
    output.remark(f"{shown} of {waiting} waiting jobs looked at; {movable} runs may move (label movable=true). Nothing was moved.")
    return 0


def _rows(advice: Mapping[str, Any]) -> list[list[str]]:
    head = [str(advice["job"]), str(advice["user"]), str(advice["wants"])]
    there = place(advice["placement"])
    if not advice["found"]:
        return [[*head, "nothing found", "", "", str(advice["reason"])]]
    if not advice["moves"]:
        return [[*head, "nothing: there is room, it waits for its turn", "", "", there]]
    rows = [[*head, str(each["job"]), str(each["user"]), place(each["was"]), place(each["to"])] for each in advice["moves"]]
    return [*rows, [*head, "then it starts", str(advice["user"]), "", there]]
