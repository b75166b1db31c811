"""A leader that stops in the middle of what it does, and wakes when another one leads; a Lease and an epoch that are lost."""

from __future__ import annotations

import json
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runtimes.failpoints import FAILPOINT, LOG
from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import User, until
from tests.e2e.volleys import marks_and_works
from tests.kube.house import KubeHouse, square

RESERVED = "workloads.replace@schedule._write<schedule._book:before:1:stop"  # in the ledger; the object does not say so yet
BOOKED = "agent.prepare:before:1:stop"  # the object says so; no node has heard of it
RUNNING = "agent.go:before:1:stop"  # the object says that it runs; the node waits for the word


def runs(house: KubeHouse, job_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(house.kubectl("get", "gwj", job_id, "-o", "json"))["status"]["runs"]
    return found


def test_a_leader_stopped_between_its_reserve_and_its_write_books_nothing_when_it_wakes(house: KubeHouse, tmp_path: Path) -> None:
    """Its write meets a newer version of the object: the successor's booking stands, and nothing is booked twice."""
    job, epoch, _ = stopped_and_woken(house, RESERVED, tmp_path)
    (run,) = runs(house, job)
    assert epoch < run["epoch"]


def test_a_leader_stopped_between_its_booking_and_the_launch_launches_nothing_when_it_wakes(house: KubeHouse, tmp_path: Path) -> None:
    """Its agents obey a newer term; the booking that it had written is honoured by the successor, or ended by it."""
    _, _, log = stopped_and_woken(house, BOOKED, tmp_path)
    assert "commands refused: the node obeys a newer term" in log


@pytest.mark.slow
def test_a_leader_stopped_before_the_word_to_go_starts_nothing_when_it_wakes(house: KubeHouse, tmp_path: Path) -> None:
    """The node's journal proves that nothing was started, and the successor starts it, once."""
    _, _, log = stopped_and_woken(house, RUNNING, tmp_path)
    assert "commands refused: the node obeys a newer term" in log


def stopped_and_woken(house: KubeHouse, point: str, folder: Path) -> tuple[str, int, str]:
    """The job that was being placed, the term of the stopped leader, and what that one logged. Nothing was doubled."""
    user, marks, reached = house.rig.user(), folder / "marks", folder / "reached"
    sleeper, successor = house.led_with(**{FAILPOINT: point, LOG: str(reached)})
    epoch = house.epoch()
    job = user.spawn(marks_and_works, str(marks), 1.0, False, vram="8GB")
    until(lambda: sleeper.paused, "the leader stopped")
    assert f"!{point}" in reached.read_text().split()
    try:
        until(lambda: house.leader() is successor and house.epoch() > epoch, "another one leads")
        until(marks.exists, "the job runs by the successor's word")
    finally:
        sleeper.signal(signal.SIGCONT)
    status = user.ended(job)
    assert "Completed" == status["phase"], status
    assert {1} == set(Counter(marks.read_text().split()).values())  # no run was started twice
    assert [status["attempt"]] == [len(marks.read_text().split())]  # and no attempt that ran was forgotten
    assert cost(status, 8) == charged(status)
    assert charged(status).micro == 1_000_000_000 - user.balance().micro
    house.sound()
    house.again(sleeper)
    return job.id, epoch, sleeper.log


def lose_the_lease(house: KubeHouse) -> None:
    """Somebody else has taken it, and is never heard of again."""
    house.kubectl("patch", "lease", "gridweave-scheduler", "--type=merge", "-p", '{"spec":{"holderIdentity":"a-stranger"}}')


def test_no_lease_and_no_epoch_is_needed_to_stay_sound(house: KubeHouse) -> None:
    """Both are records of what is so, which anybody may delete: who leads next finds the agents' word for the term."""
    user = house.rig.user()
    held = user.hold(vram="8GB")
    epoch = house.epoch()
    house.kubectl("delete", "lease", "gridweave-scheduler")
    assert_it_schedules(house, user, 3)
    lose_the_lease(house)
    until(lambda: house.epoch() > epoch, "a later term")
    assert_it_schedules(house, user, 4)
    epoch = house.epoch()
    house.kubectl("delete", "gwepoch", "scheduler")
    lose_the_lease(house)
    until(lambda: house.epoch() > epoch, "a later term than the agents have heard of")
    assert_it_schedules(house, user, 5)
    assert ("Running", 1) == ((status := held.status())["phase"], status["attempt"])
    user.release(held)
    status = held.status()
    assert cost(status, 8) == charged(status)
    house.sound()


def assert_it_schedules(house: KubeHouse, user: User, x: int) -> None:
    job = user.spawn(square, x)
    status = user.ended(job)
    assert ("Completed", 1, x * x) == (status["phase"], status["attempt"], job.result())
    until(house.leader, "somebody holds the Lease")


def test_a_leader_that_is_stopped_whole_is_replaced_and_wakes_to_wait(house: KubeHouse) -> None:
    """Every process of it, as the freezer of a machine does; in the end there are two candidates and one leader."""
    leader = until(house.leader, "somebody holds the Lease")
    epoch = house.epoch()
    leader.signal(signal.SIGSTOP)
    try:
        until(lambda: house.epoch() > epoch, "another one leads")
    finally:
        with suppress(ProcessLookupError):
            leader.signal(signal.SIGCONT)
    assert_it_schedules(house, house.rig.user(), 6)
    assert leader is not house.leader()
    assert not leader.ended()
