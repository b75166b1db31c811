"""The API server is away, and comes back."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from ports.units import Credits
from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import User, until
from tests.e2e.submits import body
from tests.kube.house import KubeHouse, square


def beats_until(file: str, stop: str) -> int:
    import os
    import time

    beats = 0
    while not os.path.exists(stop):
        beats += 1
        with open(file, "a") as out:
            out.write(os.environ["GRIDWEAVE_RUN"] + "\n")
        time.sleep(0.1)
    return beats


@pytest.mark.parametrize("seconds", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_an_api_server_that_is_away_costs_nobody_anything(house: KubeHouse, tmp_path: Path, seconds: int) -> None:
    """Submits are told when to come back and leave nothing; what runs runs on, what ends is told later; ticks catch up."""
    user = house.rig.user()
    going, ending = (user.spawn(beats_until, str(tmp_path / name), str(tmp_path / f"stop-{name}"), vram="8GB") for name in "ab")
    for job in (going, ending):
        user.running(job)
    before = ticked(house, user, user.balance())
    house.plane.stop("kube-apiserver")
    try:
        while_away(house, user, tmp_path, seconds)
    finally:
        house.plane.start_api()
    assert ticked(house, user, before) < before
    status = user.ended(ending)
    assert ("Completed", 1, beats(tmp_path / "b")) == (status["phase"], status["attempt"], ending.result())
    assert ("Running", 1) == ((now := going.status())["phase"], now["attempt"])
    assert {going.id, ending.id} == {each["id"] for each in user.client.jobs()}
    late = accepted(house, user)
    assert {going.id, ending.id, late} == {each["id"] for each in user.client.jobs()}
    (tmp_path / "stop-a").touch()
    assert ("Completed", 1, beats(tmp_path / "a")) == ((now := user.ended(going))["phase"], now["attempt"], going.result())
    for job in (going, ending):
        assert cost(said := job.status(), 8) == charged(said)
        assert 1 == len(set((tmp_path / ("a" if job is going else "b")).read_text().split()))  # one run, one attempt
    account = user.client.account()
    spent = sum(charged(user.client.status(job_id)).micro for job_id in (going.id, ending.id, late))
    assert ("0.000000", Credits.parse("1000").micro - spent) == (account["held"], Credits.parse(account["balance"]).micro)
    house.sound()


def while_away(house: KubeHouse, user: User, folder: Path, seconds: int) -> None:
    heard = beats(folder / "a")
    (folder / "stop-b").touch()
    for _ in range(seconds):
        for gateway in house.gateways:
            answer = submitted(user, gateway.url, "while-away")
            assert 503 == answer.status_code, answer.text
            assert int(answer.headers["Retry-After"]) > 0
            assert 200 == httpx.get(f"{gateway.url}/healthz", timeout=10).status_code
        time.sleep(1)
    assert heard < beats(folder / "a")


def submitted(user: User, url: str, key: str) -> httpx.Response:
    return user.direct.post(f"{url}/v1/jobs/submit", json=body(square_of_nine), headers={"Idempotency-Key": key})


def square_of_nine() -> int:
    return 81


def accepted(house: KubeHouse, user: User) -> str:
    """Whoever comes back with the same key gets a job, as of any first submit; gives its id, once it has completed."""
    until(lambda: submitted(user, house.gateways[0].url, "while-away").status_code == 202, "a submit is taken again")
    answer = submitted(user, house.gateways[1].url, "while-away")
    assert answer.status_code in (200, 202), answer.text
    job_id: str = answer.json()["id"]
    until(lambda: "Completed" == user.client.status(job_id)["phase"], "it completes")
    return job_id


def beats(file: Path) -> int:
    return len(file.read_text().split())


def ticked(house: KubeHouse, user: User, balance: Credits) -> Credits:
    """The balance once rounds of the biller have taken something of it."""

    def less() -> bool:
        house.bill()
        return user.balance() < balance

    until(less, "a tick")
    return user.balance()


def test_both_gateways_can_do_everything_again(house: KubeHouse) -> None:
    """A connection that broke is made anew."""
    user = house.rig.user()
    assert "Completed" == user.ended(user.spawn(square, 9))["phase"]
    assert [200, 200] == [httpx.get(f"{each.url}/readyz", timeout=10).status_code for each in house.gateways]
