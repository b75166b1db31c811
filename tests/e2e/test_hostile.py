"""What a user's process may do to us: each ends in a clear status, and leaves a clean node."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gridweave as gw
import pytest

from tests.e2e import machine
from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import SMALL, Rig, User, until

WHERE = {"gpu": "L4-24GB", "owner": "org"}  # of the node below
MIB = 1 << 20


def forks_like_a_bomb() -> None:
    """Each child forks on, in sessions of their own, up to three hundred; none of them ends by itself."""
    import os
    import time

    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            for _ in range(99):
                if os.fork() == 0:
                    time.sleep(86_400)
            time.sleep(86_400)
    print("exploded", flush=True)
    time.sleep(86_400)


def leaves_daemons() -> str:
    """Forked twice, in sessions of their own, with nothing open that is ours."""
    import os
    import time

    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 256)
                time.sleep(86_400)
            os._exit(0)
    time.sleep(0.3)
    return "left"


def closes_its_output() -> str:
    import os

    print("before", flush=True)
    os.close(1)
    os.close(2)
    return "fine"


def logs_a_lot() -> int:
    import sys

    line = b"x" * 1023 + b"\n"
    for _ in range(100):
        sys.stdout.buffer.write(line * 1024)
    return 100


def logs_one_line(megabytes: int = 64) -> int:
    import sys

    for _ in range(megabytes):
        sys.stdout.buffer.write(b"y" * (1 << 20))
    return megabytes


def logs_bytes() -> str:
    import sys

    sys.stdout.buffer.write(bytes(range(256)) * 4096)
    return "bytes"


def ignores_signals() -> None:
    import signal
    import time

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    print("deaf", flush=True)
    while True:
        time.sleep(0.05)


def returns_a_lock() -> Any:
    import threading

    return threading.Lock()


def pickles_slowly(seconds: float = 3.0) -> Any:
    class Slow:
        def __reduce__(self) -> Any:
            import time

            time.sleep(seconds)
            return (str, ("slow",))

    return Slow()


def exits_in_atexit() -> str:
    import atexit
    import os

    atexit.register(os._exit, 7)
    return "returned"


def leaves() -> None:
    import os

    os._exit(0)


def fills_its_disk() -> int:
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with open("data", "wb") as file:
        file.write(bytes(1 << 22))
    return 1


def closes_every_descriptor() -> str:
    import os

    os.closerange(0, 256)
    return "none left"


def says_and_returns_much(megabytes: int) -> bytes:
    import time

    print("ready", flush=True)
    time.sleep(1)
    for _ in range(megabytes):
        print("z" * ((1 << 20) - 1), flush=True)
    return bytes(megabytes << 20)


@contextmanager
def clean(rig: Rig, job: gw.Job) -> Iterator[None]:
    """Nothing of the run is left on its node afterwards, and the node takes new work."""
    yield
    folder = machine.run_folder(rig, SMALL, f"{job.id}/1").path
    assert [] == processes_in(folder)
    until(rig.idle, "its VRAM is free again")


def processes_in(folder: str) -> list[int]:
    """Those whose working directory is there: a user's process is started in it, and its children inherit it."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if os.readlink(f"/proc/{pid}/cwd").startswith(folder):
                found.append(pid)
        except OSError:
            continue
    return found


def ended(rig: Rig, user: User, job: gw.Job) -> dict[str, Any]:
    with clean(rig, job):
        status = user.ended(job)
    assert cost(status, 1) == charged(status)
    return status


def ended_in_time(rig: Rig, user: User, job: gw.Job) -> dict[str, Any]:
    """Of what takes minutes."""
    job.result(timeout=600)
    return ended(rig, user, job)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (closes_its_output, "fine"),
        (leaves_daemons, "left"),
        (pickles_slowly, "slow"),
        (exits_in_atexit, "returned"),
    ],
    ids=lambda each: getattr(each, "__name__", "-"),
)
def test_what_returns_has_returned(rig: Rig, function: Callable[[], Any], value: Any) -> None:
    """Whatever else it does to itself."""
    user = rig.user()
    job = user.spawn(function, **WHERE)
    status = ended(rig, user, job)
    assert ("Completed", value) == (status["phase"], job.result(timeout=60))


@pytest.mark.parametrize(
    ("function", "reason", "said"),
    [
        (leaves, "Exited", "exited with code 0 before the function returned"),
        (returns_a_lock, "Raised", "pickle"),
        (fills_its_disk, "Raised", "File too large"),
        (closes_every_descriptor, "Exited", ""),
    ],
    ids=lambda each: getattr(each, "__name__", "-"),
)
def test_what_fails_says_how(rig: Rig, function: Callable[[], Any], reason: str, said: str) -> None:
    """A job that just "failed" is a job that nobody can mend."""
    user = rig.user()
    job = user.spawn(function, **WHERE)
    status = ended(rig, user, job)
    assert ("Failed", reason) == (status["phase"], status["reason"]), status
    assert said in status["message"]
    with pytest.raises(Exception, match=r".+"):
        job.result(timeout=60)


@pytest.mark.parametrize(("function", "said"), [(forks_like_a_bomb, b"exploded"), (ignores_signals, b"deaf")], ids=["a fork bomb", "deaf"])
def test_what_does_not_want_to_end_is_ended(rig: Rig, function: Callable[[], Any], said: bytes) -> None:
    """Its VRAM is somebody else's a moment later."""
    user = rig.user()
    job = user.spawn(function, **WHERE)
    assert said == next(iter(job.log_bytes(follow=True))).strip()
    folder = machine.run_folder(rig, SMALL, f"{job.id}/1").path
    until(lambda: len(processes_in(folder)) >= (300 if function is forks_like_a_bomb else 1), "all of it is there")
    job.cancel()
    assert "Cancelled" == ended(rig, user, job)["phase"]


@pytest.mark.parametrize(
    ("function", "log"),
    [
        (logs_a_lot, (b"x" * 1023 + b"\n") * 1024 * 100),
        (logs_one_line, b"y" * (64 * MIB)),
        (logs_bytes, bytes(range(256)) * 4096),
    ],
    ids=["a hundred MB", "one line", "bytes"],
)
def test_a_log_is_kept_byte_for_byte(rig: Rig, function: Callable[[], Any], log: bytes) -> None:
    """Whatever it looks like; and whoever writes fast is slowed down rather than cut."""
    user = rig.user()
    job = user.spawn(function, **WHERE)
    assert "Completed" == ended(rig, user, job)["phase"]
    assert log == user.log(job), "the log is another one"  # no diff of a hundred MB


@pytest.mark.slow
def test_a_gigabyte_on_one_line_is_kept_up_to_the_cap_and_the_run_goes_on(rig: Rig) -> None:
    """An endless loop without a line's end; the last gigabyte that a log may have."""
    user = rig.user()
    job = user.spawn(logs_one_line, 1024, **WHERE)
    assert "Completed" == ended_in_time(rig, user, job)["phase"]
    assert 1024 == job.result(timeout=60)
    length = 0
    for piece in job.log_bytes():
        assert not piece.strip(b"y"), "the log is another one"
        length += len(piece)
    assert length >= 1023 * MIB


@pytest.mark.slow
def test_a_result_that_takes_a_minute_to_pickle_is_a_result(rig: Rig) -> None:
    """It is work as well, and is paid for."""
    user = rig.user()
    job = user.spawn(pickles_slowly, 61.0, **WHERE)
    status = ended_in_time(rig, user, job)
    assert ("Completed", "slow") == (status["phase"], job.result(timeout=60))
    assert status["ran_ms"] >= 61_000


def test_a_disk_that_is_full_loses_log_and_result_and_says_so(rig: Rig) -> None:
    """The run itself goes on, ends in order, and its user knows what is missing, and that it is no fault of his."""
    user = rig.user()
    job = user.spawn(says_and_returns_much, 4, **WHERE)
    assert b"ready" == next(iter(job.log_bytes(follow=True))).strip()
    resource.prlimit(machine.supervisor(rig, SMALL, f"{job.id}/1"), resource.RLIMIT_FSIZE, (MIB, MIB))
    status = ended(rig, user, job)
    assert ("Failed", "ResultLost") == (status["phase"], status["reason"]), status
    assert "its result is lost: the disk of its node did not take it (File too large)" in status["message"]
    with pytest.raises(gw.JobFailed, match="This is no fault of the function: submit it again"):
        job.result(timeout=60)
    assert b"ready\n" == user.log(job)[:6]


def test_a_node_whose_disk_is_full_takes_no_work_until_it_is_not(rig: Rig) -> None:
    """Nothing is lost by it, and nothing is billed: the job is tried again."""
    user = rig.user()
    agent = machine.agent(rig, SMALL)
    before = resource.prlimit(agent, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        job = user.spawn(lambda: 5, **WHERE)
        until(lambda: job.status()["attempt"] == 2, "the node has refused it, and it is tried again")
    finally:
        resource.prlimit(agent, resource.RLIMIT_FSIZE, before)
    assert 5 == job.result(timeout=60)
    status = ended(rig, user, job)
    assert "Completed" == status["phase"]
