"""Cancel, at every stage: Cancelled only when nothing of the run is left; one end, one charge, one release."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import gridweave as gw
import pytest

from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import Rig, until


@pytest.fixture
def silent_server() -> Iterator[int]:
    """A port where somebody listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_pending_job_ends_without_having_run(rig: Rig) -> None:
    """Nothing was used, so nothing is owed."""
    user = rig.user()
    user.hold(owner="provider", vram="1GB", gpus=2, exclusive=True)
    job = user.spawn(lambda: None, owner="provider")
    job.cancel()
    status = user.ended(job)
    assert ("Cancelled", 0, 0, "0.000000") == (status["phase"], status["attempt"], status["ran_ms"], status["charged"])
    with pytest.raises(gw.Cancelled):
        job.result(timeout=60)


def test_a_job_whose_environment_is_being_built_ends_without_a_charge(rig: Rig, silent_server: int) -> None:
    """The installer holds a GPU for nobody, and set-up is never billed."""
    user = rig.user()
    job = user.spawn(lambda: None, env={"pip": [f"never @ http://127.0.0.1:{silent_server}/never-1.0-py3-none-any.whl"]})
    until(lambda: "Installing" in job.status()["setup"], "the installer has begun")
    job.cancel()
    status = user.ended(job)
    assert ("Cancelled", 0, "0.000000") == (status["phase"], status["ran_ms"], status["charged"])
    assert [] == [entry for entry in user.client.usage()["entries"] if entry["kind"] == "charge"]


def test_a_running_job_is_cancelled_only_when_its_processes_are_gone(rig: Rig) -> None:
    """Its VRAM is sold anew at that moment."""

    def stubborn() -> None:
        import os
        import signal
        import time

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.environ["GRIDWEAVE_STUBBORN"] = "1"
        print("ready", flush=True)
        while True:
            time.sleep(0.01)

    def alive(mark: bytes) -> bool:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cwd/mark", "rb") as file:
                    if file.read() == mark:
                        return True
            except OSError:
                continue
        return False

    def marked() -> None:
        import pathlib

        pathlib.Path("mark").write_bytes(b"stubborn")
        stubborn()

    user = rig.user()
    job = user.spawn(marked, vram="8GB")
    next(iter(job.logs(follow=True)))
    assert alive(b"stubborn")
    job.cancel()
    status = user.ended(job)
    assert ("Cancelled", "Cancelled") == (status["phase"], status["reason"])
    assert not alive(b"stubborn")
    assert cost(status, 8) == charged(status)


def test_a_running_job_may_tidy_up_before_it_is_killed(rig: Rig) -> None:
    """A training run writes its last checkpoint on SIGTERM."""

    def tidy() -> None:
        import signal
        import sys
        import time

        def last_words(*_: object) -> None:
            print("tidied up", flush=True)
            sys.exit(1)

        signal.signal(signal.SIGTERM, last_words)
        print("ready", flush=True)
        time.sleep(86_400)

    user = rig.user()
    job = user.spawn(tidy)
    next(iter(job.logs(follow=True)))
    job.cancel()
    assert "Cancelled" == user.ended(job)["phase"]
    assert b"ready\ntidied up\n" == user.log(job)


def test_cancel_twice_and_after_the_end_changes_nothing(rig: Rig) -> None:
    """Scripts repeat what they are not sure of."""
    user = rig.user()
    job = user.hold()
    first, second = job.cancel(), job.cancel()
    assert first["cancel_requested_at"] == second["cancel_requested_at"]
    ended = user.ended(job)
    done = user.spawn(lambda: 5)
    assert 5 == done.result(timeout=60)
    before = user.ended(done)
    assert [ended, before] == [job.cancel(), done.cancel()]
    assert 5 == done.result(timeout=60)


def test_cancel_racing_completion_gives_one_end_one_charge_and_one_release(rig: Rig) -> None:
    """Whichever comes first, the books and the fleet agree with it."""

    def short(seconds: float) -> str:
        import time

        time.sleep(seconds)
        return "done"

    user = rig.user()
    before = user.balance()
    jobs = [user.spawn(short, 0.3 + n * 0.02, vram="2GB", owner="org") for n in range(16)]
    threads = [threading.Thread(target=job.cancel) for job in jobs]
    user.in_phase(jobs[4], {"Closing"})
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = [user.ended(job) for job in jobs]
    assert {"Completed", "Cancelled"} >= {each["phase"] for each in seen}
    assert [cost(each, 2) for each in seen] == [charged(each) for each in seen]
    total = sum(charged(each).micro for each in seen)
    assert before.micro - total == user.balance().micro
    assert "0.000000" == user.client.account()["held"]
    until(rig.idle, "every GPU free again")
    assert seen == [job.status() for job in jobs]
    for job, status in zip(jobs, seen, strict=True):
        if status["phase"] == "Completed":
            assert "done" == job.result(timeout=60)
        else:
            with pytest.raises(gw.Cancelled):
                job.result(timeout=60)
