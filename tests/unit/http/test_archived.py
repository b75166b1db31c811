"""An archived job is to its user what it was: listed, with status, log, result and bill."""

from __future__ import annotations

from core.archive import Archived, archive
from core.charges import final_charges
from core.history import recall
from ports.units import Span
from ports.workloads import CHARGED, HOLD_VOIDED, ConditionStatus, Job, JobStatus
from tests.unit.http.conftest import ALICE, BOB, Gateway, Make, body


def an_archived(gateway: Gateway, **changes: object) -> Job:
    job = gateway.submit(**changes)
    gateway.start(job)
    gateway.finish(job, b"forty-nine", log=b"working\n")

    def settled(status: JobStatus) -> JobStatus:
        for kind in (CHARGED, HOLD_VOIDED):
            status = status.with_condition(kind, ConditionStatus.TRUE, gateway.house.clock.now())
        return status

    gateway.change(job, settled)
    assert Archived(moved=1) == archive(gateway.house)
    assert gateway.house.workloads.get(job.id) is None
    gateway.look()
    return job


def test_an_archived_job_is_listed_and_read_like_any_other(make: Make) -> None:
    """`gridweave ps --all`, status, logs and result of last year."""
    gateway = make(archive_after=Span(0))
    gateway.node("n1", ("A100-80GB", 80))
    old = an_archived(gateway)
    young = gateway.submit(name="cube")
    assert [young.id, old.id] == [job["id"] for job in gateway.get("/v1/jobs").json()["jobs"]]
    assert [old.id] == [job["id"] for job in gateway.get("/v1/jobs", params={"phase": "Completed"}).json()["jobs"]]
    assert [young.id] == [job["id"] for job in gateway.get("/v1/jobs", params={"phase": "Pending,Running"}).json()["jobs"]]
    status = gateway.get(f"/v1/jobs/{old.id}/status").json()
    assert ("Completed", "square") == (status["phase"], status["name"])
    assert b"forty-nine" == gateway.get(f"/v1/jobs/{old.id}/result").content
    assert b"working\n" == gateway.get(f"/v1/jobs/{old.id}/logs").content
    followed = gateway.get(f"/v1/jobs/{old.id}/logs", params={"follow": "true"}).text
    assert "event: end" in followed
    assert "Completed" == gateway.post(f"/v1/jobs/{old.id}/cancel").json()["phase"]


def test_the_bill_of_an_archived_job_stays(make: Make) -> None:
    """The journal of money is never pruned, whatever becomes of the job."""
    gateway = make(archive_after=Span(0), credits_enabled=True)
    gateway.node("n1", ("A100-80GB", 80))
    gateway.pay("alice", 20)
    job = an_archived(gateway)
    found = recall(gateway.house, job.id)
    assert found is not None
    gateway.house.credits.charge(final_charges(found))  # also when it comes late
    _, charge = gateway.get("/v1/usage").json()["entries"]
    assert ("charge", job.id, f"{job.id}/1", 1500) == tuple(charge[name] for name in ("kind", "job", "run", "ran_ms"))


def test_another_users_archived_job_does_not_exist(make: Make) -> None:
    gateway = make(archive_after=Span(0))
    gateway.node("n1", ("A100-80GB", 80))
    job = an_archived(gateway)
    assert 404 == gateway.get(f"/v1/jobs/{job.id}/status", BOB).status_code
    assert [] == gateway.get("/v1/jobs", BOB).json()["jobs"]


def test_an_archived_job_answers_for_its_idempotency_key(make: Make) -> None:
    """A script that is run again a year later with its key gets the old job, not another bill."""
    gateway = make(archive_after=Span(0))
    gateway.node("n1", ("A100-80GB", 80))
    headers = ALICE | {"Idempotency-Key": "once"}
    job = an_archived(gateway, headers=headers)
    again = gateway.post("/v1/jobs/submit", headers, json=body())
    assert (202, job.id, False, "Completed") == (again.status_code, *(again.json()[name] for name in ("id", "created", "phase")))
    assert 409 == gateway.post("/v1/jobs/submit", headers, json=body(name="other")).status_code


def test_lists_go_from_the_store_into_the_archive_page_by_page(make: Make) -> None:
    gateway = make(archive_after=Span(0))
    gateway.node("n1", ("A100-80GB", 80))
    ids = [an_archived(gateway).id for _ in range(3)] + [gateway.submit().id for _ in range(3)]
    found, cursor = [], ""
    while True:
        page = gateway.get("/v1/jobs", params={"limit": 2, "cursor": cursor}).json()
        found += [job["id"] for job in page["jobs"]]
        cursor = page["cursor"]
        if not cursor:
            break
    assert ids[::-1] == found
