"""How a function ends is how its job ends: values, exceptions, exit codes, signals, and children left behind."""

from __future__ import annotations

import os
import signal

import gridweave as gw
import pytest

from tests.e2e.rig import Rig


def test_a_function_goes_in_and_its_value_log_and_bill_come_out(rig: Rig) -> None:
    """The main job of the whole house."""

    def square(x: int) -> int:
        print("squaring", x)
        return x * x

    user = rig.user()
    job = user.spawn(square, 7, vram="8GB")
    assert 49 == job.result(timeout=60)
    assert b"squaring 7\n" == user.log(job)
    assert "Completed" == user.ended(job)["phase"]


def test_a_function_may_use_every_processor_of_its_node(rig: Rig) -> None:
    """The gateway keeps to one; what it starts, and what that starts, does not."""

    def processors() -> list[int]:
        import os

        return sorted(os.sched_getaffinity(0))

    assert sorted(os.sched_getaffinity(0)) == rig.user().spawn(processors).result(timeout=60)


def test_an_exception_arrives_as_itself_with_its_remote_traceback_and_cause(rig: Rig) -> None:
    """A user debugs by it; "the job failed" would be useless to him."""

    def outer() -> None:
        def inner() -> None:
            raise KeyError("no such thing")

        try:
            inner()
        except KeyError as error:
            raise ValueError("wrong input") from error

    user = rig.user()
    job = user.spawn(outer)
    with pytest.raises(ValueError, match="wrong input") as caught:
        job.result(timeout=60)
    assert isinstance(caught.value.__cause__, KeyError)
    assert ("no such thing",) == caught.value.__cause__.args
    notes = "\n".join(caught.value.__notes__)
    assert "Remote traceback" in notes
    assert "in inner" in notes
    assert "gridweave_agent" not in notes


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL], ids=lambda number: number.name)
def test_a_worker_killed_by_a_signal_says_which_and_its_last_lines(rig: Rig, number: signal.Signals) -> None:
    """Nothing else tells a crash of a native library from a mistake in Python."""

    def crash(number: int) -> None:
        import os

        print("last words")
        os.kill(os.getpid(), number)

    user = rig.user()
    job = user.spawn(crash, int(number))
    with pytest.raises(gw.JobFailed) as caught:
        job.result(timeout=60)
    assert number.name == caught.value.signal
    status = user.ended(job)
    assert ("Failed", "Signalled", number.name) == (status["phase"], status["exit"]["kind"], status["exit"]["signal"])
    assert "last words" in status["exit"]["log_tail"]


@pytest.mark.parametrize("code", [0, 1, 3, "out of luck"])
def test_exit_codes_are_what_a_script_would_end_with(rig: Rig, code: int | str) -> None:
    """Command line tools wrapped in a function end by sys.exit, also when all went well."""

    def leave(code: int | str) -> None:
        import sys

        sys.exit(code)

    user = rig.user()
    status = user.ended(job := user.spawn(leave, code))
    if code == 0:
        assert ("Completed", None) == (status["phase"], job.result(timeout=60))
        return
    expected = 1 if isinstance(code, str) else code
    assert ("Failed", "Exited", expected) == (status["phase"], status["exit"]["kind"], status["exit"]["code"])
    assert isinstance(code, int) or b"out of luck" in user.log(job)


@pytest.mark.parametrize("code", [0, 7])
def test_a_process_that_leaves_without_a_word_has_failed_with_its_code(rig: Rig, code: int) -> None:
    """A C library that calls exit() has given no result, whatever its code says."""

    def leave(code: int) -> None:
        import os

        os.write(1, b"leaving\n")
        os._exit(code)

    user = rig.user()
    status = user.ended(user.spawn(leave, code))
    assert ("Failed", "Exited", code) == (status["phase"], status["exit"]["kind"], status["exit"]["code"])
    assert "leaving" in status["exit"]["log_tail"]


def test_running_out_of_memory_in_python_arrives_as_memory_error(rig: Rig) -> None:
    """The user's own except clause should catch it, on the laptop too."""

    def greedy() -> int:
        print("allocating")
        return len(bytearray(1 << 55))

    user = rig.user()
    job = user.spawn(greedy)
    with pytest.raises(MemoryError):
        job.result(timeout=60)
    status = user.ended(job)
    assert ("Failed", "Raised") == (status["phase"], status["exit"]["kind"])
    assert "MemoryError" in status["exit"]["message"]
    assert "allocating" in status["exit"]["log_tail"]


def test_a_run_is_ended_when_its_max_hours_are_used_up(rig: Rig) -> None:
    """A loop that never ends should cost an hour and not a weekend."""

    def loops() -> None:
        import time

        print("looping", flush=True)
        while True:
            time.sleep(0.01)

    user = rig.user()
    job = user.spawn(loops, max_hours=0.0002)
    status = user.ended(job)
    assert ("Failed", "MaxRuntime") == (status["phase"], status["reason"])
    assert "looping" in status["exit"]["log_tail"]
    assert status["ran_ms"] >= 720


@pytest.mark.parametrize("way", ["returns", "raises", "cancelled"])
def test_a_child_in_a_session_of_its_own_does_not_outlive_the_run(rig: Rig, way: str) -> None:
    """A daemon left behind would keep VRAM that is sold to the next user."""

    def forks(way: str) -> str:
        import os
        import subprocess
        import time

        child = subprocess.Popen(["sleep", "86399"], start_new_session=True, env={})
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execve("/bin/sleep", ["sleep", "86399"], {})  # noqa: S606 - without a shell, on purpose
            os._exit(0)
        print("forked", child.pid, flush=True)
        if way == "raises":
            raise RuntimeError("after forking")
        if way == "cancelled":
            time.sleep(86399)
        return "done"

    def sleepers() -> list[str]:
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if line == b"sleep\x0086399\x00":
                found.append(pid)
        return found

    assert [] == sleepers()
    user = rig.user()
    job = user.spawn(forks, way)
    if way == "cancelled":
        user.running(job)
        for text in job.logs(follow=True):
            if "forked" in text:
                break
        assert 2 == len(sleepers())
        job.cancel()
    status = user.ended(job)
    assert {"returns": "Completed", "raises": "Failed", "cancelled": "Cancelled"}[way] == status["phase"]
    assert [] == sleepers()
