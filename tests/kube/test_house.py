"""The whole house with Kubernetes as its source of truth: any of its processes may go."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import gridweave as gw
from gridweave.calls import spawn
from gridweave.jobs import Job

from ports.units import Credits
from tests.canaries import PLATFORM_TOKEN
from tests.contract.races import in_threads
from tests.e2e.closed_form import charged, cost
from tests.e2e.platform import Platform
from tests.e2e.rig import until
from tests.e2e.volleys import marks_and_works
from tests.kube.house import KubeHouse, square


def test_a_job_runs_and_kubectl_tells_of_it(house: KubeHouse) -> None:
    """The object is all that there is of it, and says all of it."""
    user = house.rig.user()
    job = user.spawn(square, 7)
    assert "Completed" == user.ended(job)["phase"]
    assert 49 == job.result()
    form = json.loads(house.kubectl("get", "gwj", job.id, "-o", "json"))
    assert ("Completed", "org-big:0") == (form["status"]["phase"], form["status"]["where"])
    said = {each["type"] for each in form["status"]["conditions"]}
    assert {"Allocated", "Charged", "Completed", "Funded", "HoldVoided", "ResultStored", "Running"} == said
    told = until(lambda: events_of(house, job.id, "Charged", "Completed"), "the scheduler has told of its end")
    for expected in ("Placed", "Started", "Ended"):
        assert expected in told


def events_of(house: KubeHouse, job: str, *words: str) -> str:
    """What kubectl describe shows of its events, once those words are among them."""
    told = house.kubectl("describe", "gwj", job).partition("Events:")[2]
    return told if all(word in told for word in words) else ""


def test_deleting_a_running_jobs_object_cancels_and_charges_it(house: KubeHouse) -> None:
    """Who works with kubectl gets no GPU for nothing, and leaves none behind."""
    user = house.rig.user()
    job = user.hold(vram="8GB")
    user.running(job)
    house.kubectl("delete", "gwj", job.id, "--timeout=60s")
    assert "" == house.kubectl("get", "gwj", job.id, "--ignore-not-found")
    until(house.rig.idle, "every GPU free again")
    account = user.client.account()
    assert "0.000000" == account["held"]
    assert user.balance() < Credits.parse("1000")


def test_deleting_an_object_waits_for_no_credit_service(house: KubeHouse) -> None:
    """Its finalizer goes while nothing can be charged; what it ran is charged when that can be done again, once."""
    user = house.rig.user()
    job = user.hold(vram="8GB")
    user.running(job)
    with closing(sqlite3.connect(house.rig.gateway.state / "credits.db", isolation_level=None)) as elsewhere:
        elsewhere.execute("BEGIN IMMEDIATE")  # nobody else can post anything
        house.kubectl("delete", "gwj", job.id, "--timeout=100s")
        elsewhere.execute("ROLLBACK")
    assert "0.000000" != user.client.account()["held"]
    house.bill()
    paid = user.balance()
    assert paid < Credits.parse("1000")
    house.bill()
    assert ("0.000000", paid) == (user.client.account()["held"], user.balance())
    house.sound()


def test_a_job_outlives_the_scheduler_that_placed_it(house: KubeHouse) -> None:
    """The next one finds the booking in the object, and the run on its node."""
    user = house.rig.user()
    held = user.hold(vram="8GB")
    leader = until(house.leader, "somebody holds the Lease")
    epoch = int(house.kubectl("get", "gwepoch", "scheduler", "-o", "jsonpath={.spec.newest}"))
    leader.signal(signal.SIGKILL)
    job = user.spawn(square, 8)
    assert "Completed" == user.ended(job)["phase"]
    assert epoch < int(house.kubectl("get", "gwepoch", "scheduler", "-o", "jsonpath={.spec.newest}"))
    assert ("Running", 1) == ((status := held.status())["phase"], status["attempt"])
    user.release(held)
    until(house.rig.idle, "every GPU free again")
    leader.stop()
    leader.start()


def test_a_name_that_is_used_again_is_another_workload(house: KubeHouse, tmp_path: Path) -> None:
    """Other uid, other runs, its own hold and its own charge: what the first one cost is no credit of the second."""
    user, function = house.rig.user(), gw.function(vram="8GB")(marks_and_works)
    seen: list[tuple[str, str]] = []
    for n in (1, 2):
        seconds = 2.0 if n == 1 else 0.2  # by its shorter time the second is told from the first in the usage, which names no uid
        job = spawn(user.client, function, (str(tmp_path / "marks"), seconds, False), {}, "the-same-key")
        status = user.ended(job)
        assert ("Completed", 1, cost(status, 8)) == (status["phase"], status["attempt"], charged(status))
        seen.append((job.id, house.kubectl("get", "gwj", job.id, "-o", "jsonpath={.metadata.uid}")))
        spent = Credits.parse("1000").micro - user.balance().micro
        assert (n, True) == (len((tmp_path / "marks").read_text().split()), spent > 0)
        if n == 1:
            first = spent
            house.kubectl("delete", "gwj", job.id, "--timeout=60s")
    assert first + charged(status).micro == spent
    assert (1, 2) == (len({name for name, _ in seen}), len({uid for _, uid in seen}))
    house.sound()


def test_either_gateway_answers_for_both(house: KubeHouse) -> None:
    """A request may meet any of them: one key is one job, whoever is asked, and the other one's end harms nobody."""
    first, second = house.gateways
    user = house.rig.user()
    with closing(Platform(second.port, PLATFORM_TOKEN)) as platform, closing(gw.Client(platform.url, user.key)) as other:
        clients = user.client, other
        jobs = in_threads(lambda n: spawn(clients[n % 2], gw.function(vram="1GB")(square), (6,), {}, "one-key"), 6)
        assert 1 == len({job.id for job in jobs})  # type: ignore[attr-defined]
        (job,) = user.client.jobs()
        until(lambda: "Completed" == other.status(job["id"])["phase"], "the other one's job, completed")
        held = user.hold(vram="8GB")
        first.kill()
        try:
            assert "Running" == other.status(held.id)["phase"]
            late = spawn(other, gw.function(vram="1GB")(square), (7,), {})
            assert 49 == late.result(timeout=60)
            other.cancel(held.id)
        finally:
            first.start()
            first.ready()
    assert "Cancelled" == user.ended(held)["phase"]
    assert 1 == user.ended(Job(job["id"], user.client))["attempt"]
    house.sound()


def test_two_billers_at_once_post_once(house: KubeHouse) -> None:
    """A CronJob's rounds may overlap."""
    user = house.rig.user()
    held = user.hold(vram="8GB")
    balance = user.balance()
    while user.balance() == balance:
        both = [house.biller() for _ in range(2)]
        said = [each.communicate(timeout=120)[1] for each in both]
        assert [0, 0] == [each.returncode for each in both], said
    user.release(held)
    status = held.status()
    assert cost(status, 8) == charged(status)
    assert Credits.parse("1000").micro - charged(status).micro == user.balance().micro
    house.sound()
