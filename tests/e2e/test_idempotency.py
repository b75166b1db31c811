"""A submit that is repeated is one job, however often, at whatever moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
from gridweave.jobs import Job

from tests.e2e.rig import Rig, User
from tests.e2e.submits import body


def send(user: User, key: str, said: dict[str, Any]) -> Any:
    return user.direct.post("/v1/jobs/submit", json=said, headers={"Idempotency-Key": key})


def test_the_same_key_and_body_are_the_same_job(rig: Rig) -> None:
    """A client that heard no answer asks again."""
    user, said = rig.user(), body(lambda: 1, name="once")
    first, second = send(user, "one", said), send(user, "one", dict(reversed(said.items())))
    assert [202, 202] == [first.status_code, second.status_code]
    assert (True, False) == (first.json()["created"], second.json()["created"])
    assert first.json()["id"] == second.json()["id"]
    job = Job(first.json()["id"], user.client)
    user.ended(job)
    assert job.id == send(user, "one", said).json()["id"], "also after its end"
    assert 1 == len(list(user.client.jobs()))


def test_the_same_key_with_another_body_is_refused(rig: Rig) -> None:
    """Whoever reuses a key by mistake must not get the result of something else."""
    user = rig.user()
    first = send(user, "one", body(lambda: 1))
    other = send(user, "one", body(lambda: 2))
    assert (409, "/problems/key-reused") == (other.status_code, other.json()["type"])
    assert [first.json()["id"]] == [job["id"] for job in user.client.jobs()]
    user.ended(Job(first.json()["id"], user.client))


def test_keys_of_different_users_have_nothing_to_do_with_each_other(rig: Rig) -> None:
    """Everybody calls his first job job-1."""
    one, other, said = rig.user(), rig.user(), body(lambda: 1)
    ids = {send(user, "job-1", said).json()["id"] for user in (one, other)}
    assert 2 == len(ids)


def test_twenty_at_once_with_one_key_are_one_job_that_runs_once(rig: Rig, tmp_path: Path) -> None:
    """A load balancer repeats in parallel."""
    mark = tmp_path / "ran"
    tmp_path.chmod(0o777)

    def once(path: str) -> None:
        import time

        with open(path, "a") as file:
            file.write("ran\n")
        time.sleep(0.3)

    user = rig.user()
    said = body(once, cloudpickle.dumps(((str(mark),), {})), vram="8GB", owner="org")
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: send(user, "burst", said), range(20)))
    assert {202} == {each.status_code for each in answers}
    assert 1 == len({each.json()["id"] for each in answers})
    assert 1 == sum(each.json()["created"] for each in answers)
    assert "0.000800" == user.client.account()["held"], "one hold"
    job = Job(answers[0].json()["id"], user.client)
    assert "Completed" == user.ended(job)["phase"]
    assert "ran\n" == mark.read_text()


def test_a_refused_submit_is_not_remembered(rig: Rig) -> None:
    """After topping up, the same command works."""
    user = rig.user(credits=None)
    said = body(lambda: 1, vram="8GB", owner="org")
    assert 402 == send(user, "poor", said).status_code
    rig.grant(user, "1")
    again = send(user, "poor", said)
    assert (202, True) == (again.status_code, again.json()["created"])
    assert "Completed" == user.ended(Job(again.json()["id"], user.client))["phase"]
