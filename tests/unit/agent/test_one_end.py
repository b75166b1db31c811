"""A run ends in one way, however many say at the same moment that it has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from gridweave_agent.agent import Agent
from gridweave_agent.ended import Ended
from gridweave_agent.journal import Journal
from gridweave_agent.protocol import NEVER_RAN, SETUP_FAILED, EnvSpec, Exit, Gpu, Grant, Prepare, Slot
from gridweave_agent.settings import Settings
from gridweave_agent.table import Run

RUNS = 40
HOWS = (
    Ended(Exit(SETUP_FAILED, message="no such package"), False, 1, 11),
    Ended(Exit(NEVER_RAN, message="ended on request"), False, 2, 22),
)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal.open(tmp_path / "node", 0)


@pytest.fixture
def agent(journal: Journal) -> Iterator[Agent]:
    settings = Settings("n1", str(journal.home), "token", gpus=(Gpu(0, "A100-80GB", "nvidia", 81_920),), spares=0)
    made = Agent(settings, journal)
    yield made
    made.stop()


def taken_in(agent: Agent, journal: Journal, number: int) -> Run:
    """A run that is being set up."""
    grant = Grant("PUT", "http://127.0.0.1:1/{name}")
    prepare = Prepare(f"j{number}/1", "u", "f", (Slot(0, 1),), (), EnvSpec(), {"function": grant, "args": grant}, grant, 1000)
    run = Run(prepare, journal.add(prepare, 1), 1, prepare.output)
    assert "" == agent.table.add(run)
    return run


def test_two_ends_at_once_are_one_for_everybody(agent: Agent, journal: Journal) -> None:
    """What is on disk is what a successor says, and what was told is what was billed."""
    for number in range(RUNS):
        run = taken_in(agent, journal, number)
        together = threading.Barrier(len(HOWS))

        def end(run: Run, how: Ended, together: threading.Barrier = together) -> None:
            together.wait()
            agent.end(run, how)

        threads = [threading.Thread(target=end, args=(run, how)) for how in HOWS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = Ended(run.exit or Exit(""), run.started, run.ran_ms, run.log_bytes, run.result)
        assert said in HOWS
        assert said == Ended.read(run.dir)


def test_what_the_supervisor_has_recorded_is_how_it_ended(agent: Agent, journal: Journal) -> None:
    """Whatever the agent was about to say of it."""
    run = taken_in(agent, journal, 1)
    agent.end(run, HOWS[0])
    again = Run(run.prepare, run.dir, 1, run.output)
    agent.end(again, HOWS[1])
    assert (HOWS[0].exit, 1, 11) == (again.exit, again.ran_ms, again.log_bytes)
    assert HOWS[0] == Ended.read(run.dir)
