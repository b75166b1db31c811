"""A job that waits says so, also where no line of progress can be drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from gridweave.notices import Notices
from gridweave.streams import State

from tests.unit.sdk.conftest import SDK
from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Project
from tests.unit.sdk.test_progress import on_terminal

TURN = "Waits for its turn: {} earlier jobs wait for the same GPUs."
SCRIPT = """
import asyncio
import sys
import gridweave as gw

@gw.function
def f():
    return 7

if __name__ == "__main__":
    print(asyncio.run(f.remote.aio()) if sys.argv[1:] else f.remote())
"""


def heard(folder: Path, gateway: Gateway, *arguments: str) -> tuple[str, str, str]:
    """The first line that it says on stderr while its job waits; then stdout, and the rest of stderr."""
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    process = subprocess.Popen([sys.executable, *arguments], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    gateway.waits = []
    return (first, *process.communicate(timeout=60))


@pytest.mark.parametrize("arguments", [["script.py"], ["script.py", "async"], ["-m", "gridweave", "submit", "script.py:f"]])
def test_a_job_that_waits_says_so_in_a_pipe(gateway: Gateway, project: Project, arguments: Sequence[str]) -> None:
    """Nothing at all, for hours, looks like a fault; so does a line for each place in the queue that it gains."""
    folder = project(script=SCRIPT)
    gateway.waits = [{"waiting": TURN.format(2), "position": 3}, {"waiting": TURN.format(1), "position": 2}]
    first, out, rest = heard(folder, gateway, *arguments)
    ident = next(iter(gateway.runs))
    assert f"Job {ident} is Pending (position 3 in the queue: {TURN.format(2)})\n" == first
    assert ("7\n", "") == (out, "".join(line for line in rest.splitlines() if " ran " not in line))


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_log_that_is_followed_says_that_its_job_waits(gateway: Gateway, project: Project, more: Sequence[str]) -> None:
    """Also for no reason that anybody knows of: there may be no scheduler."""
    folder = project(script=SCRIPT)
    subprocess.run(
        [sys.executable, "-c", "import script; script.f.spawn()"], cwd=folder, env={**os.environ, "PYTHONPATH": str(SDK)}, check=True
    )
    ident = next(iter(gateway.runs))
    gateway.waits = [{}]
    first, _, rest = heard(folder, gateway, "-m", "gridweave", "logs", "-f", ident, *more)
    assert (f"Job {ident} is Pending (position 1 in the queue)\n", "") == (first, rest)


def test_a_line_of_progress_says_it_alone(gateway: Gateway, project: Project) -> None:
    """A terminal need not be told twice."""
    gateway.waits = [{"waiting": TURN.format(2), "position": 3}]
    _, seen = on_terminal(project(script=SCRIPT), interrupt_at=TURN.format(2))
    assert "is Pending" not in seen


def test_only_another_kind_of_reason_is_news_and_seldom() -> None:
    """A log of a day's wait should be a few lines long."""
    said, clock = list[str](), [0.0]
    with Notices("job-a", said.append, lambda: clock[0]) as notices:
        for at, reason in ((0, TURN.format(9)), (60, TURN.format(8)), (61, "Wants 2 GPUs; none is idle."), (70, TURN.format(1))):
            clock[0] = at
            notices.state(State("Pending", reason, 1))
        assert [
            f"Job job-a is Pending (position 1 in the queue: {reason})" for reason in (TURN.format(9), "Wants 2 GPUs; none is idle.")
        ] == said
        clock[0] = 91.5
        notices.state(State("Pending", TURN.format(1), 1))
        assert 3 == len(said)
        for at, count in ((92, 3), (122, 4)):  # as after an attempt that was lost
            clock[0] = at
            notices.state(State("Running"))
            notices.state(State("Pending", TURN.format(1), 1))
            assert count == len(said)


def test_who_is_placed_at_once_says_nothing() -> None:
    """Every job is Pending for a moment."""
    said = list[str]()
    with Notices("job-a", said.append) as notices:
        notices.state(State("Pending", "", 1))
        notices.state(State("Running"))
    assert [] == said
