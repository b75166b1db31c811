"""Processes by what can't be mistaken, because something is going to be killed by it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from attrs import evolve

from adapters.ray.sessions import ProcessId, Session, end, process_id

# A leader that starts a child in its session and one in a session of its own, names both, and then waits or exits.
CODE = """
import subprocess, sys
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
inside, outside = subprocess.Popen(sleep), subprocess.Popen(sleep, start_new_session=True)
print(inside.pid, outside.pid, flush=True)
sys.stdin.readline()
"""


Family = tuple[subprocess.Popen[str], ProcessId, ProcessId, ProcessId]


@pytest.fixture
def family() -> Iterator[Family]:
    """The leader as we hold it, and leader, child and outsider as processes."""
    command = [sys.executable, "-c", CODE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True) as leader:
        assert leader.stdout is not None
        ids = [process_id(pid) for pid in (leader.pid, *map(int, leader.stdout.readline().split()))]
        found = [each for each in ids if each is not None]
        assert 3 == len(found)
        try:
            yield leader, found[0], found[1], found[2]
        finally:
            end(lambda: [each for each in found if each.alive], 0)


def test_a_session_has_its_leader_and_its_children_but_none_that_left(family: Family) -> None:
    """Runs leave on purpose: stopping Ray must not stop them."""
    _, leader, inside, _ = family
    assert {leader, inside} == set(Session(leader).members())


def test_a_session_is_still_known_after_its_leader_has_gone(family: Family) -> None:
    """`ray start` ends; what it started goes on."""
    popen, leader, inside, _ = family
    assert popen.stdin is not None
    popen.stdin.close()
    popen.wait()
    assert not leader.alive
    assert (inside,) == Session(leader).members()


def test_another_process_under_the_same_pid_is_not_the_one_meant(family: Family) -> None:
    """Pids come round again; a stranger would be killed."""
    _, leader, _, _ = family
    earlier = evolve(leader, started=leader.started - 1)
    assert not earlier.alive
    assert () == Session(earlier).members()
    assert () == Session(evolve(leader, boot="another-boot")).members()


def test_ending_a_session_leaves_those_that_left(family: Family) -> None:
    """Killing too much is worse than killing too little."""
    popen, leader, inside, outside = family
    end(Session(leader).members)
    popen.wait()
    assert [False, False, True] == [each.alive for each in (leader, inside, outside)]
