"""A node's wall clock may be set at any moment: nothing that an agent, a zygote or a supervisor does may depend on it."""

from __future__ import annotations

import ast
from pathlib import Path

import gridweave_agent
import pytest

SOURCES = sorted(Path(gridweave_agent.__file__).parent.glob("*.py"))
WALL = {"time", "time_ns", "localtime", "gmtime", "ctime", "strftime", "CLOCK_REALTIME", "CLOCK_TAI"}  # the others can't be set


def wall_clocks(source: str) -> list[str]:
    """Where that program reads a clock that can be set."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "time" and node.attr in WALL:
            found.append(f"time.{node.attr}, line {node.lineno}")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"time.{name.name}, line {node.lineno}" for name in node.names if name.name in WALL]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            found += [f"{name}, line {node.lineno}" for name in names if name.partition(".")[0] == "datetime"]
    return found


def test_what_runs_on_a_node_reads_no_clock_that_can_be_set() -> None:
    """How long a run took is billed; an hour that an operator sets must cost nobody anything."""
    assert len(SOURCES) > 30
    assert {} == {path.name: read for path in SOURCES if (read := wall_clocks(path.read_text()))}


@pytest.mark.parametrize(
    "source",
    [
        "import time\nprint(time.time())",
        "from time import time_ns",
        "import time\ntime.clock_gettime(time.CLOCK_REALTIME)",
        "from datetime import datetime",
        "import datetime",
    ],
)
def test_the_reading_of_such_a_clock_would_be_found(source: str) -> None:
    assert 1 == len(wall_clocks(source))
