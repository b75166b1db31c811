"""The archive: what ended long ago leaves the store and is still there, once, whoever dies on the way."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from core.archive import ALL, RECORDS, Archive, Archived, archivable, archive, as_kept, is_due
from core.callers import Caller
from core.charges import cost
from core.history import pages, recall
from core.house import House, Terms
from core.jobs import cancel, find, listing
from core.submit import submit
from ports.blobs import input_key
from ports.errors import Conflict, Invalid, KeyReused, NotFound, Unavailable
from ports.units import Credits, Instant, Span
from ports.workloads import CHARGED, HOLD_VOIDED, RESULT_STORED, ConditionStatus, Job, JobFilter, JobStatus, Phase
from tests.contract.samples import a_full_job, a_job
from tests.memory.blobs import MemoryBlobs
from tests.memory.clock import ManualClock
from tests.memory.workloads import MemoryWorkloads
from tests.simulation.faults import Crash, Mode
from tests.simulation.stage import Stage
from tests.simulation.world import TERMS

KEPT = Span.of(hours=168)


def a_house(kept: Span = KEPT) -> House:
    clock, unused = ManualClock(), None
    blobs = MemoryBlobs(clock)
    return House(MemoryWorkloads(), unused, unused, unused, blobs, clock, unused, Terms(archive_after=kept), unused)  # type: ignore[arg-type]


def ended(job: Job, at: Instant = Instant(0), phase: Phase = Phase.COMPLETED) -> Job:
    status = JobStatus(phase=phase, outcome=phase)
    for kind in (CHARGED, HOLD_VOIDED, RESULT_STORED):
        status = status.with_condition(kind, ConditionStatus.TRUE, at)
    return evolve(job, status=status)


def everything(house: House, which: JobFilter = JobFilter(), limit: int = 2) -> list[str]:
    found, cursor = list[str](), ""
    while True:
        page = pages(house, which, cursor, limit)
        assert len(page.jobs) <= limit
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if not cursor:
            return found


# ---------------------------------------------------------------- which, and when


def test_it_moves_when_it_was_settled_long_enough_ago_and_not_before() -> None:
    """An operator sets how long kubectl and the database show what has ended."""
    house = a_house()
    job = house.workloads.create(ended(a_job(at=0), house.clock.now()))
    for ms, expected in ((KEPT.ms - 1, Archived()), (1, Archived(moved=1)), (0, Archived())):
        house.clock.advance(Span(ms))  # type: ignore[attr-defined]
        assert expected == archive(house)
    assert house.workloads.get(job.id) is None
    assert evolve(job, version="") == recall(house, job.id)


def test_no_value_of_an_environment_moves_along() -> None:
    """Users keep passwords there, and a bucket is read by more people than jobs are. All the rest is as it was."""
    house = a_house(Span(0))
    job = a_job()
    secret = evolve(job.spec.env, env_vars={"TOKEN": "a-secret-of-ann", "SEED": ""})
    house.workloads.create(ended(evolve(job, spec=evolve(job.spec, env=secret))))
    assert Archived(moved=1) == archive(house)
    assert [] == [info.key for info in house.blobs.list("archive/") if b"a-secret-of-ann" in b"".join(house.blobs.get(info.key))]
    kept = recall(house, job.id)
    assert kept is not None
    assert {"TOKEN": "", "SEED": ""} == kept.spec.env.env_vars
    assert evolve(ended(job), spec=evolve(job.spec, env=kept.spec.env), version="", uid=kept.uid) == kept


@pytest.mark.parametrize("missing", [CHARGED, HOLD_VOIDED, "phase", "leaving"])
def test_what_is_not_settled_stays(missing: str) -> None:
    """A charge that was refused is for a person to look at, where everybody sees it."""
    job = ended(a_job())
    assert archivable(job)
    if missing == "phase":
        job = evolve(job, status=evolve(job.status, phase=Phase.CLOSING))
    elif missing == "leaving":
        job = evolve(job, leaving=True)
    else:
        job = evolve(job, status=job.status.with_condition(missing, ConditionStatus.FALSE, Instant(0), "Refused"))
    assert not is_due(job, Instant(10**12), Span(0))


def test_what_has_run_stays_until_its_result_is_stored() -> None:
    run = a_full_job().status.runs
    job = ended(a_job())
    stored = evolve(job, status=evolve(job.status, runs=run))
    assert archivable(stored)
    assert not archivable(evolve(stored, status=stored.status.with_condition(RESULT_STORED, ConditionStatus.UNKNOWN, Instant(0))))


def test_the_round_says_what_can_not_be_archived() -> None:
    house = a_house(Span(0))
    job = ended(a_job("refused", at=0))
    house.workloads.create(evolve(job, status=job.status.with_condition(CHARGED, ConditionStatus.FALSE, Instant(0), "Refused")))
    house.workloads.create(ended(a_job("done", at=0)))
    assert Archived(moved=1, unsettled=1) == archive(house)
    assert house.workloads.get("refused") is not None


# ---------------------------------------------------------------- nothing is lost or listed twice


@given(
    at=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    archived=st.sets(st.integers(0, 11)),
    both=st.sets(st.integers(0, 11)),
    limit=st.integers(1, 5),
)
def test_store_and_archive_are_one_list(at: list[int], archived: set[int], both: set[int], limit: int) -> None:
    """Newest first in pages of any size, each job once, also one that is in both because somebody died between the two."""
    house = a_house()
    for number, ms in enumerate(at):
        job = ended(a_job(f"job-{number:02}", at=ms))
        if number in archived | both:
            Archive(house.blobs).keep(job)
        if number not in archived or number in both:
            house.workloads.create(job)
    expected = [f"job-{n:02}" for _, n in sorted(((ms, n) for n, ms in enumerate(at)), reverse=True)]
    assert expected == everything(house, limit=limit)


@given(at=st.lists(st.integers(0, 6), min_size=1, max_size=12), steps=st.lists(st.integers(0, 11), max_size=12), limit=st.integers(1, 4))
def test_what_moves_while_the_pages_are_turned_comes_once(at: list[int], steps: list[int], limit: int) -> None:
    """A list is read while the sweep runs."""
    house = a_house()
    made = [house.workloads.create(ended(a_job(f"job-{number:02}", at=ms))) for number, ms in enumerate(at)]
    found, cursor, moves = list[str](), "", list(steps)
    while True:
        page = pages(house, JobFilter(), cursor, limit)
        found += [job.id for job in page.jobs]
        cursor = page.cursor
        if not cursor:
            break
        if moves and (number := moves.pop()) < len(made) and house.workloads.get(made[number].id) is not None:
            Archive(house.blobs).keep(made[number])
            house.workloads.delete(made[number])
    assert [f"job-{n:02}" for _, n in sorted(((ms, n) for n, ms in enumerate(at)), reverse=True)] == found


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER, Mode.LOST, Mode.REFUSED])
def test_a_sweep_that_died_anywhere_loses_nothing_and_lists_nothing_twice(mode: Mode) -> None:
    """Killed at any point, and finished by the next round."""
    for at in range(1, 20):
        stage = Stage()
        job = stage.running()
        stage.clock.ms += 1_000
        stage.completed(job)
        before = stage.job(job)
        stage.clock.ms += KEPT.ms
        stage.faults.fuse, stage.faults.blows = at, mode
        try:
            archive(stage.house)
        except (Crash, Unavailable):
            stage.faults.fuse = 0
            assert [job] == [each.id for each in listing(stage.house, Caller("ann"), JobFilter()).jobs]
            archive(stage.house)
        blown, stage.faults.fuse = stage.faults.fuse == 0, 0
        assert stage.jobs.get(job) is None
        assert [evolve(before, version="")] == list(listing(stage.house, Caller("ann"), JobFilter()).jobs)
        assert (1, 1) == (len(list(stage.blobs.list(RECORDS))), len(list(stage.blobs.list(ALL))))
        if not blown:
            return
    pytest.fail("it has more steps than this test tries")


def test_who_finds_that_another_one_has_moved_it_goes_on() -> None:
    """Two sweeps at once: each job is moved by one of them, and both write the same names."""
    house = a_house(Span(0))
    for name in ("a", "b"):
        house.workloads.create(ended(a_job(name, at=0)))

    class Other(MemoryWorkloads):
        def delete(self, job: Job) -> None:
            house.workloads.delete(job)
            raise Conflict(job.id)

    other = Other()
    for name in ("a", "b"):
        other.create(ended(a_job(name, at=0)))
    assert Archived() == archive(evolve(house, workloads=other))
    assert Archived() == archive(house)
    assert ["b", "a"] == everything(house)


# ---------------------------------------------------------------- for its user


def test_lists_are_narrowed_as_in_the_store() -> None:
    """By user, phase, name and label; an admin's list is of all users."""
    house = a_house()
    samples = [
        ended(a_job("a", at=1, labels={"team": "x"})),
        ended(a_job("b", at=2, user="bob", name="cube")),
        ended(a_job("c", at=3), phase=Phase.FAILED),
    ]
    for job in samples:
        Archive(house.blobs).keep(job)
    for which, expected in (
        (JobFilter(), ["c", "b", "a"]),
        (JobFilter(user="alice"), ["c", "a"]),
        (JobFilter(phases=frozenset({Phase.FAILED})), ["c"]),
        (JobFilter(phases=frozenset({Phase.PENDING})), []),
        (JobFilter(name="cube"), ["b"]),
        (JobFilter(labels={"team": "x"}), ["a"]),
        (JobFilter(labels={"team": "y"}), []),
    ):
        assert expected == everything(house, which)


def test_another_users_archived_job_does_not_exist() -> None:
    house = a_house()
    Archive(house.blobs).keep(ended(a_job("a")))
    assert "a" == find(house, Caller("alice"), "a").id
    with pytest.raises(NotFound):
        find(house, Caller("mallory"), "a")
    assert Phase.COMPLETED is cancel(house, Caller("alice"), "a").status.phase


def test_an_archived_job_answers_for_its_idempotency_key() -> None:
    """Else a retry of last week would run, and cost, a second time."""
    stage = Stage()
    ann, request = Caller("ann"), stage.request(key="once")
    job = stage.hand_in(ann, request).job.id
    stage.rounds(2)
    stage.ready(job)
    stage.rounds(2)
    stage.completed(job)
    stage.clock.ms += KEPT.ms
    assert Archived(moved=1) == archive(stage.house)
    again = stage.hand_in(ann, request)
    assert (job, False, Phase.COMPLETED) == (again.job.id, again.created, again.job.status.phase)
    with pytest.raises(KeyReused):
        stage.hand_in(ann, evolve(request, body_sha256="other"))
    assert stage.jobs.get(job) is None


@pytest.mark.parametrize("terms", [TERMS, evolve(TERMS, credits_enabled=False)], ids=["billed", "free of charge"])
def test_a_submit_that_stood_still_until_its_twin_was_archived_makes_no_second_job(terms: Terms) -> None:
    """A process that is stopped between two lines for a week is still one submit."""
    stage = Stage(terms=terms)
    ann, request = Caller("ann"), stage.request(key="once")
    inner = stage.house.workloads

    class Slow:
        """Between the look and the create of the first submit, the second one's whole life passes."""

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def create(self, job: Job) -> Job:
            if stage.jobs.get(job.id) is None and Archive(stage.blobs).get(job.id) is None:
                made = stage.hand_in(ann, request).job.id
                stage.rounds(2)
                stage.ready(made)
                stage.rounds(2)
                stage.completed(made)
                stage.clock.ms += KEPT.ms
                archive(stage.house)
            return inner.create(job)

    slow = evolve(stage.house, workloads=Slow())  # type: ignore[arg-type]
    made = submit(slow, ann, request, stage.fleet())
    assert (False, Phase.COMPLETED) == (made.created, made.job.status.phase)
    assert stage.jobs.get(made.job.id) is None
    run = made.job.status.run
    assert run is not None
    assert (cost(run.price, run.ran) if terms.credits_enabled else Credits(0)) == made.job.status.charged
    left = {info.key for info in stage.blobs.list(f"jobs/{made.job.id}/") if "/inputs-" in info.key}
    assert {input_key(made.job.id, made.job.uid, name) for name in ("function", "args")} == left


def test_one_made_anew_under_an_archived_name_is_another_workload() -> None:
    """Both are listed; the name stands for the newer one."""
    house = a_house()
    old, new = ended(evolve(a_job("a", at=1), uid="uid-1")), ended(evolve(a_job("a", at=2), uid="uid-2"))
    Archive(house.blobs).keep(new)
    Archive(house.blobs).keep(old)
    assert ["a", "a"] == everything(house)
    assert "uid-2" == getattr(recall(house, "a"), "uid", "")


def test_every_field_is_kept() -> None:
    """Whatever bytes are in it."""
    house, job = a_house(), ended(a_full_job("ü/🦉\udcff"))
    full = evolve(a_full_job(job.id), status=evolve(a_full_job(job.id).status, phase=Phase.CANCELLED))
    Archive(house.blobs).keep(full)
    assert as_kept(full) == recall(house, job.id)
    assert [job.id] == everything(house)


@pytest.mark.parametrize("cursor", ["x", "e30", "W10", "W251bGwsMSwyXQ", "🦉", "null"])
def test_a_cursor_that_no_page_gave_is_refused(cursor: str) -> None:
    """And not answered with an empty list, which would look like the end."""
    with pytest.raises(Invalid, match="cursor"):
        pages(a_house(), JobFilter(), cursor, 2)


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"schema": 99}'])
def test_a_record_that_can_not_be_read_is_said_to_be_so(data: bytes) -> None:
    """It was written by a newer release, or is damaged: neither means that there is no such job."""
    house = a_house()
    house.blobs.put(f"{RECORDS}a/uid.json", [data])
    with pytest.raises(Unavailable, match="archive"):
        recall(house, "a")
