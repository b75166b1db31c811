"""Which modules a piece of code imports, told from its bytecode: nothing is executed, and nested functions are looked into."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any


def imported_by(code: CodeType, package: str) -> Iterator[str]:
    """Full names of what the code imports, also inside nested functions; `from a import b` gives both a and a.b."""
    for name, level, names in _imports(code):
        base = resolve(name, level, package)
        if base:
            yield base
            yield from (f"{base}.{each}" for each in names)


def climb(code: CodeType) -> int:
    """How many packages around it the code needs: the most dots before one of its relative imports."""
    return max((level for _, level, _ in _imports(code)), default=0)


def _imports(code: CodeType) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Name, level and `from` list of every import."""
    before: list[Any] = [0, None]  # what the two last instructions loaded: an import's level and its names
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            continue
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval), int(before[0] or 0), tuple(before[1] or ())
        before = [before[-1], instruction.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports(constant)


def resolve(name: str, level: int, package: str) -> str:
    """The absolute name of an import, "" if it points above the top."""
    if level == 0:
        return name
    parts = package.split(".") if package else []
    if level - 1 >= len(parts):
        return ""
    kept = parts[: len(parts) - (level - 1)]
    return ".".join([*kept, name] if name else kept)
