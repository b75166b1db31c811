"""Which modules a piece of code imports, told from its bytecode: nothing is executed, and nested functions are looked into."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import Any


def imported_by(code: CodeType, package: str) -> Iterator[str]:
    """Full names of what the code imports, also inside nested functions; `from a import b` gives both a and a.b."""
    before: list[Any] = [0, None]  # what the two last instructions loaded: an import's level and its names
    for instruction in dis.get_instructions(code):
        if instruction.opname == "EXTENDED_ARG":
            continue
        if instruction.opname == "IMPORT_NAME":
            level, names = before
            base = resolve(str(instruction.argval), int(level or 0), package)
            if base:
                yield base
                yield from (f"{base}.{name}" for name in names or ())
        before = [before[-1], instruction.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from imported_by(constant, package)


def resolve(name: str, level: int, package: str) -> str:
    """The absolute name of an import, "" if it points above the top."""
    if level == 0:
        return name
    parts = package.split(".") if package else []
    if level - 1 >= len(parts):
        return ""
    kept = parts[: len(parts) - (level - 1)]
    return ".".join([*kept, name] if name else kept)
