"""Rows of a CSV file whose faults name file, line, column, the value and what would be right."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from attrs import frozen

from ports.errors import Invalid

T = TypeVar("T")


@frozen
class Row:
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


def columns(path: Path) -> tuple[str, ...]:
    """The names in its first line, to tell what kind of file it is; none if it can't be read."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return tuple(each.strip() for each in next(csv.reader(file, strict=True), []))
    except (OSError, UnicodeDecodeError, csv.Error):
        return ()


def rows(path: Path, needed: Sequence[str]) -> Iterator[Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            columns = [each.strip() for each in next(reader, [])]
            for column in needed:
                if columns.count(column) != 1:
                    message = f"{path}, line 1: needs one column {column!r}; it has {', '.join(columns) or 'none'}"
                    raise Invalid(f"{message:.200}.", column, f"It must have {', '.join(needed)}.")
            for values in reader:
                if not values:
                    continue
                if len(values) != len(columns):
                    message = f"{path}, line {reader.line_num}: {len(values)} values under {len(columns)} columns."
                    raise Invalid(message, columns[min(len(values), len(columns) - 1)], "Give one value per column.", ",".join(values))
                yield Row(path, reader.line_num, dict(zip(columns, values, strict=True)))
    except OSError as error:
        raise Invalid(f"{path} can't be read: {error.strerror}.", "file", "Give a CSV file that is there.", str(path)) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise Invalid(f"{path} is no CSV file in UTF-8: {error}.", "file", "Give the file as it was exported.", str(path)) from error


def some(path: Path, found: Iterable[T], what: str) -> tuple[T, ...]:
    rows = tuple(found)
    if not rows:
        raise Invalid(f"{path} has no {what}.", "file", "Give a file that has some.", str(path))
    return rows
