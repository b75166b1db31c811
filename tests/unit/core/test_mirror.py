"""A gateway's copy of what is unfinished: positions, counts and held slots, without a scan."""

from __future__ import annotations

from attrs import evolve

from core.mirror import Mirror
from ports.units import Instant, Mib
from ports.workloads import Ask, BlobRef, Changes, Job, JobSpec, JobStatus, Phase
from tests.simulation.stage import Stage
from tests.simulation.world import GB

BLOB = BlobRef("0" * 64, 1)


def job(name: str, at: int = 0, phase: Phase = Phase.PENDING, uid: str = "u") -> Job:
    return Job(name, uid, Instant(at), JobSpec("ann", "free", "f", Ask(Mib(1)), BLOB, BLOB), JobStatus(phase), "1")


def told(mirror: Mirror, *jobs: Job, deleted: tuple[str, ...] = (), whole: bool = False) -> None:
    mirror.apply(Changes(jobs, deleted, "", whole))


def test_positions_are_by_age_and_move_up() -> None:
    mirror = Mirror()
    told(mirror, job("c", 3), job("a", 1), job("b", 2))
    assert [1, 2, 3] == [mirror.position(each) for each in "abc"]
    told(mirror, job("a", 1, Phase.ALLOCATED))
    assert [0, 1, 2] == [mirror.position(each) for each in "abc"]
    assert 2 == mirror.waiting()


def test_what_has_ended_or_is_gone_is_forgotten() -> None:
    mirror = Mirror()
    told(mirror, job("a"), job("b"), job("c"))
    told(mirror, job("a", phase=Phase.COMPLETED), deleted=("b", "never-heard-of"))
    assert [0, 0, 1] == [mirror.position(each) for each in "abc"]
    assert 1 == sum(mirror.phases().values())


def test_a_whole_answer_replaces_everything() -> None:
    mirror = Mirror()
    told(mirror, job("a"), job("b"))
    told(mirror, job("b"), whole=True)
    assert [0, 1] == [mirror.position(each) for each in "ab"]


def test_an_id_that_was_made_anew_has_the_new_ones_place() -> None:
    mirror = Mirror()
    told(mirror, job("a", 1), job("b", 2))
    told(mirror, job("a", 3, uid="another"))
    assert [2, 1] == [mirror.position(each) for each in "ab"]
    told(mirror, deleted=("a",))
    assert 1 == mirror.waiting()


def test_the_same_news_twice_is_news_once() -> None:
    mirror = Mirror()
    for _ in range(2):
        told(mirror, job("a"), job("b", phase=Phase.CLOSING))
    assert {Phase.PENDING: 1, Phase.ALLOCATED: 0, Phase.RUNNING: 0, Phase.CLOSING: 1} == mirror.phases()


def test_the_fleet_counts_what_live_runs_hold() -> None:
    """As the store says, whichever process has booked it."""
    stage = Stage()
    held = stage.running(10)
    mirror = Mirror()
    mirror.seed(stage.stored())
    gpu = mirror.fleet(stage.records.list()).nodes[0].gpus[0]
    assert (10 * GB, 30 * GB) == (gpu.booked.n, gpu.free.n)
    stage.completed(held)
    mirror.apply(stage.jobs.changes("0"))
    assert 40 * GB == mirror.fleet(stage.records.list()).nodes[0].gpus[0].free.n


def test_it_gives_what_has_changed() -> None:
    mirror = Mirror()
    new = evolve(job("a"), version="2")
    assert (new,) == mirror.apply(Changes((new,), (), ""))
