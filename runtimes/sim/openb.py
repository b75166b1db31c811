"""Reads the CSV files of the openb trace (a production cluster's node list and pod lists, published by Alibaba).

    nodes: sn, gpu, model                  others are left alone
    pods:  name, num_gpu, gpu_milli        gpu_spec where there is one: models that it may run on, separated by "|"

The trace names a GPU's model and not its VRAM: `MIB` says it. Rows without GPUs are left out. Every fault is an Invalid
that names file, line, column, the value and what would be right.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from core.simulation.trace import Machine, Pod
from ports.errors import Invalid
from ports.units import Mib

MIB = {"T4": 15_109, "V100M16": 16_160, "P100": 16_280, "A10": 22_731, "V100M32": 32_510, "G2": 20_000, "G3": 30_000}
MOST_GPUS = 1024  # of a node

T = TypeVar("T")


@frozen
class _Row:
    """One line of a file, with what an error about it has to say."""

    path: Path
    line: int
    values: dict[str, str]

    def text(self, column: str) -> str:
        return self.values.get(column, "").strip()

    def whole(self, column: str, least: int, most: int) -> int:
        text = self.text(column)
        if text.isascii() and text.isdigit() and least <= int(text[:20]) <= most:
            return int(text)
        raise self.wrong(column, text, f"Give a whole number from {least} to {most}.")

    def wrong(self, column: str, value: str, remedy: str) -> Invalid:
        return Invalid(f"{self.path}, line {self.line}, column {column}: {value!r:.80} can't be used.", column, remedy, value)


def read_nodes(path: Path) -> tuple[Machine, ...]:
    """The nodes with GPUs. Raises Invalid."""
    machines: dict[str, Machine] = {}
    for row in _rows(path, ("sn", "gpu", "model")):
        name, gpus, model = row.text("sn"), row.whole("gpu", 0, MOST_GPUS), row.text("model")
        if not name or name in machines:
            raise row.wrong("sn", name, "Give each node a name of its own.")
        if gpus:
            if model not in MIB:
                raise row.wrong("model", model, f"Give one of {', '.join(MIB)}.")
            machines[name] = Machine(name, model, gpus, Mib(MIB[model]))
    return _some(path, machines.values(), "nodes with GPUs")


def read_pods(path: Path) -> tuple[Pod, ...]:
    """The rows that ask for GPUs. Raises Invalid."""
    pods = []
    for row in _rows(path, ("num_gpu", "gpu_milli")):
        gpus = row.whole("num_gpu", 0, MOST_GPUS)
        if gpus:
            pods.append(Pod(gpus, row.whole("gpu_milli", 1, 1000), _spec(row)))
    return _some(path, pods, "rows that ask for GPUs")


def _spec(row: _Row) -> frozenset[str]:
    names = frozenset(name.strip() for name in row.text("gpu_spec").split("|") if name.strip())
    for name in sorted(names - MIB.keys()):
        raise row.wrong("gpu_spec", name, f"Give some of {', '.join(MIB)}, separated by |, or leave it empty.")
    return names


def _rows(path: Path, needed: Sequence[str]) -> Iterator[_Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            columns = [each.strip() for each in next(reader, [])]
            for column in needed:
                if columns.count(column) != 1:
                    found = f"it has {', '.join(columns) or 'none'}"
                    raise Invalid(f"{path}, line 1: needs one column {column!r}; {found:.200}.", column, f"It must have {', '.join(needed)}.")
            for values in reader:
                if not values:
                    continue
                if len(values) != len(columns):
                    message = f"{path}, line {reader.line_num}: {len(values)} values under {len(columns)} columns."
                    raise Invalid(message, columns[min(len(values), len(columns) - 1)], "Give one value per column.", ",".join(values))
                yield _Row(path, reader.line_num, dict(zip(columns, values, strict=True)))
    except OSError as error:
        raise Invalid(f"{path} can't be read: {error.strerror}.", "file", "Give a CSV file that is there.", str(path)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise Invalid(f"{path} is no CSV file in UTF-8: {error}.", "file", "Give the trace's own file.", str(path)) from error


def _some(path: Path, found: Iterable[T], what: str) -> tuple[T, ...]:
    rows = tuple(found)
    if not rows:
        raise Invalid(f"{path} has no {what}.", "file", "Give a file that has some.", str(path))
    return rows
