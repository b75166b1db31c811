"""No room: jobs wait in order, say what for, and nobody is overtaken to his cost."""

from __future__ import annotations

from typing import Any

from gridweave.jobs import Job

from tests.e2e.rig import ENDED, Rig, User, until


def waiting(user: User, job: Job) -> dict[str, Any]:
    """Its status, once it says what it waits for."""

    def seen() -> dict[str, Any] | None:
        said = job.status()
        assert "Pending" == said["phase"], said
        return said if said["waiting"] and said["position"] else None

    found: dict[str, Any] = until(seen, f"{job} says what it waits for")
    return found


def test_jobs_without_room_wait_and_say_position_and_reason(rig: Rig) -> None:
    """A user who sees neither thinks it is broken."""
    user = rig.user()
    user.hold(owner="provider", vram="1GB", gpus=2, exclusive=True)
    jobs = [user.spawn(lambda: None, owner="provider", vram="20GB") for _ in range(3)]
    said = [waiting(user, job) for job in jobs]
    assert [1, 2, 3] == [each["position"] for each in said]
    assert "20480 MiB" in said[0]["waiting"]
    assert all(each["waiting"] for each in said)
    assert [[], [], []] == [each["placement"] for each in said]


def test_the_queue_is_first_come_first_served(rig: Rig) -> None:
    """Whoever came first has waited longest."""
    user = rig.user()
    first = user.hold(owner="provider", vram="1GB", gpus=2, exclusive=True)
    jobs = [user.spawn(lambda: None, owner="provider", vram="1GB", gpus=2, exclusive=True) for _ in range(4)]
    for job in jobs:
        waiting(user, job)
    first.cancel()
    started = [user.ended(job)["started_at"] for job in jobs]
    assert sorted(started) == started
    assert 4 == len(set(started))


def test_a_smaller_job_does_not_overtake_where_it_would_delay_an_earlier_one(rig: Rig) -> None:
    """A stream of small jobs would keep a large one waiting for ever."""
    user = rig.user()
    small, large = {"owner": "provider", "vram": "1GB"}, {"owner": "provider", "vram": "24GB"}
    holds = [user.hold(**small), user.hold(**small, exclusive=True)]
    first = user.spawn(lambda: None, **large)
    waiting(user, first)
    later = user.spawn(lambda: None, **small)  # there is room for it beside the first hold
    assert "turn" in waiting(user, later)["waiting"]
    user.release(*holds)
    assert user.ended(first)["started_at"] <= user.ended(later)["started_at"]


def test_a_later_job_passes_on_gpus_that_no_earlier_one_waits_for(rig: Rig) -> None:
    """One full pool must not stop the whole cluster."""
    user = rig.user()
    user.hold(owner="provider", vram="1GB", gpus=2, exclusive=True)
    waiting(user, user.spawn(lambda: None, owner="provider", vram="1GB"))
    passed = user.spawn(lambda: 1, owner="org", vram="1GB")
    assert 1 == passed.result(timeout=60)


def test_whoever_leaves_the_queue_makes_room_for_those_behind(rig: Rig) -> None:
    """A job that was given up must hold nobody back."""
    user = rig.user()
    user.hold(owner="provider", vram="1GB")
    blocks = user.spawn(lambda: None, owner="provider", vram="24GB", gpus=2)
    waiting(user, blocks)
    behind = user.spawn(lambda: 2, owner="provider", vram="1GB")
    assert 2 == waiting(user, behind)["position"]
    blocks.cancel()
    assert 2 == behind.result(timeout=60)
    assert "Cancelled" == user.ended(blocks)["phase"]


def test_many_jobs_drain_through_few_gpus_each_exactly_once(rig: Rig) -> None:
    """Under pressure nothing may be lost or run twice."""
    user = rig.user()
    jobs = [user.spawn(lambda n: n, n, owner="provider", vram="12GB") for n in range(16)]
    assert list(range(16)) == [job.result(timeout=120) for job in jobs]
    seen = [user.ended(job) for job in jobs]
    assert {("Completed", 1)} == {(each["phase"], each["attempt"]) for each in seen}
    assert all(each["phase"] in ENDED for each in seen)
