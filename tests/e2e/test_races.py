"""Many at once: for the last GB, with one key, and cancel against everything. One outcome each."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import gridweave as gw
import httpx
import pytest
from gridweave.parcels import Parcel

from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import ENDED, Rig, User, until

CLIENTS, ROUNDS = 200, 10
LAST_GB = {"gpu": "L4-24GB", "owner": "org"}
T = TypeVar("T")
Question = Callable[[httpx.AsyncClient], Awaitable[T]]


def waits_for_ever() -> None:
    import time

    time.sleep(86_400)


def marks(file: str, seconds: float) -> None:
    import os
    import time

    with open(file, "a") as marks:
        marks.write(os.environ["GRIDWEAVE_RUN"] + "\n")
    time.sleep(seconds)


for each in (waits_for_ever, marks):
    each.__module__ = "__main__"  # as if they stood in a script


def body(user: User, function: Callable[..., Any], *args: Any, **ask: Any) -> dict[str, Any]:
    """The request that the SDK would send."""
    with closing(Parcel(gw.function(**{"vram": "1GB", **ask})(function))) as parcel:
        letter = parcel.letter(args, {})
        with closing(letter):
            return parcel.body(user.client, letter._arguments, letter._code)


def at_once(questions: Iterable[Question[T]], rig: Rig, user: User) -> list[T]:
    async def ask() -> list[T]:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(
            base_url=rig.gateway.url, headers=dict(user.direct.headers), timeout=120, limits=limits, trust_env=False
        ) as client:
            return list(await asyncio.gather(*(question(client) for question in questions)))

    return asyncio.run(ask())


def submits(said: dict[str, Any], keys: Iterable[str]) -> Iterator[Question[httpx.Response]]:
    def one(key: str) -> Question[httpx.Response]:
        return lambda client: client.post("/v1/jobs/submit", json=said, headers={"Idempotency-Key": key})

    return map(one, keys)


def cancels(ids: Iterable[str]) -> Iterator[Question[httpx.Response]]:
    def one(job_id: str) -> Question[httpx.Response]:
        return lambda client: client.post(f"/v1/jobs/{job_id}/cancel")

    return map(one, ids)


@pytest.fixture
def last_gb(rig: Rig) -> Iterator[User]:
    """Somebody who sees one GB left of all that he may have."""
    holder = rig.user("holder")
    held = [holder.hold(vram="24GB", **LAST_GB), holder.hold(vram="23GB", **LAST_GB)]
    yield rig.user("hasty")
    holder.release(*held)


def test_two_hundred_clients_for_the_last_gb_get_it_one_at_a_time(rig: Rig, last_gb: User) -> None:
    """Whoever is told that he has it, has it; the others wait and lose nothing."""
    said = body(last_gb, waits_for_ever, **LAST_GB)
    for number in range(ROUNDS):
        answers = at_once(submits(said, (f"{last_gb.id}-{number}-{n}" for n in range(CLIENTS))), rig, last_gb)
        assert Counter({202: CLIENTS}) == Counter(answer.status_code for answer in answers)
        ids = {answer.json()["id"] for answer in answers}
        assert CLIENTS == len(ids)
        until(lambda: "Running" in phases(last_gb), "one of them runs")
        assert Counter(Running=1, Pending=CLIENTS - 1) == phases(last_gb)
        assert most_booked(rig) == [24 * 1024, 24 * 1024]
        winner = next(iter(last_gb.client.jobs(phases="Running")))["id"]
        assert Counter({202: CLIENTS - 1}) == Counter(
            answer.status_code for answer in at_once(cancels(sorted(ids - {winner})), rig, last_gb)
        )
        until(lambda: phases(last_gb) == Counter(Running=1), "those who waited are gone, and nobody else")
        assert winner == next(iter(last_gb.client.jobs(phases="Running")))["id"]
        last_gb.client.cancel(winner)
        until(lambda: not phases(last_gb), "the GB is free again")
    ended = list(last_gb.client.jobs(phases="Cancelled", limit=1000))
    assert CLIENTS * ROUNDS == len(ended)
    assert ROUNDS == sum(job["attempt"] for job in ended)
    assert "0.000000" == last_gb.client.account()["held"]


def phases(user: User) -> Counter[str]:
    return Counter(job["phase"] for job in user.client.jobs(phases="Pending,Allocated,Running,Closing", limit=1000))


def most_booked(rig: Rig) -> list[int]:
    return [gpu["booked_mib"] for gpu in rig.resources()["org-small"]["gpus"]]


def test_fifty_submits_with_one_key_make_one_job(rig: Rig, tmp_path: Path) -> None:
    """A client that hears nothing asks again, and again."""
    user = rig.user()
    said = body(user, marks, str(tmp_path / "marks"), 0.0)
    answers = at_once(submits(said, ["one"] * 50), rig, user)
    assert Counter({202: 50}) == Counter(answer.status_code for answer in answers)
    assert 1 == len({answer.json()["id"] for answer in answers})
    assert 1 == sum(answer.json()["created"] for answer in answers)
    (job,) = user.client.jobs()
    assert "Completed" == user.ended(gw.Job(job["id"], user.client))["phase"]
    assert [f"{job['id']}/1"] == (tmp_path / "marks").read_text().split()


def test_of_different_bodies_with_one_key_one_wins(rig: Rig) -> None:
    """The others are told, and not given somebody else's job."""
    user = rig.user()
    bodies = [body(user, waits_for_ever, name=f"number-{n}", **LAST_GB) for n in range(20)]
    answers = at_once(itertools.chain.from_iterable(submits(each, ["one"]) for each in bodies), rig, user)
    assert Counter({202: 1, 409: 19}) == Counter(answer.status_code for answer in answers)
    (job,) = user.client.jobs()
    user.release(gw.Job(job["id"], user.client))


def test_refusals_with_one_key_leave_nothing(rig: Rig) -> None:
    """Each of them creates, fails to pay and takes back what another may just have made."""
    user = rig.user(credits=None)
    answers = at_once(submits(body(user, waits_for_ever), ["one"] * 50), rig, user)
    assert {402} == {answer.status_code for answer in answers} - {503}
    assert [] == list(user.client.jobs())
    assert "0.000000" == user.client.account()["held"]


def test_cancel_against_launch_gives_one_outcome(rig: Rig, tmp_path: Path) -> None:
    """Between submit and go there are a dozen moments, and a cancel may come in each."""
    user = rig.user()
    before = user.balance()
    folder = tmp_path / "marks"
    folder.mkdir()
    jobs = [user.spawn(marks, str(folder / str(n)), 60.0, owner="org") for n in range(2)]
    user.release(*jobs)  # warm
    timers = []
    for n in range(2, 42):
        job = user.spawn(marks, str(folder / str(n)), 60.0, owner="org")
        jobs.append(job)
        timers.append(threading.Timer(n * 0.01, job.cancel))
        timers[-1].start()
    for timer in timers:
        timer.join()
    seen = [user.ended(job) for job in jobs]
    assert {("Cancelled", "Cancelled")} == {(each["phase"], each["reason"]) for each in seen}
    for number, status in enumerate(seen):
        file = folder / str(number)
        runs = file.read_text().split() if file.exists() else []
        assert runs in ([], [f"{status['id']}/1"])
        assert status["attempt"] <= 1
        assert status["ran_ms"] > 0 or not runs
    assert [cost(each, 1) for each in seen] == [charged(each) for each in seen]
    assert before.micro - sum(charged(each).micro for each in seen) == user.balance().micro
    assert "0.000000" == user.client.account()["held"]


def test_cancel_cancel_and_completion_at_once(rig: Rig) -> None:
    """Scripts, impatient people and the end of the work itself."""

    def short() -> str:
        import time

        time.sleep(0.3)
        return "done"

    user = rig.user()
    jobs = [user.spawn(short, owner="org") for _ in range(12)]
    until(lambda: "Closing" in phases(user) or not phases(user), "the first one ends")
    answers = at_once(cancels(job.id for job in jobs for _ in range(3)), rig, user)
    assert Counter({202: 36}) == Counter(answer.status_code for answer in answers)
    seen = [user.ended(job) for job in jobs]
    assert {each["phase"] for each in seen} <= ENDED - {"Failed"}
    assert seen == [job.status() for job in jobs]
    assert [cost(each, 1) for each in seen] == [charged(each) for each in seen]
    audited = rig.credits.verify()
    assert audited.sound, audited
