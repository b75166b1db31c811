"""What is large on its way there: it is seen to go, it may be interrupted, and it may break off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gridweave as gw
import pytest
from gridweave.payloads import Payload

from tests.unit.sdk.conftest import SDK
from tests.unit.sdk.gateway import Gateway, ProblemError
from tests.unit.sdk.running import Project
from tests.unit.sdk.test_progress import on_terminal

SIZE = 16 * 1024 * 1024
WORK = """
import gridweave as gw

@gw.function(env={"working_dir": "data"})
def f(): ...
"""
SCRIPT = f"""
import gridweave as gw

@gw.function
def size(data):
    return len(data)

if __name__ == "__main__":
    print(size.spawn(bytes({SIZE})).result())
"""


@pytest.fixture
def folder(project: Project) -> Path:
    folder = project(work=WORK, script=SCRIPT)
    (folder / "data").mkdir()
    (folder / "data" / "weights").write_bytes(os.urandom(SIZE))
    return folder


def silent() -> ProblemError:
    """As the gateway words it."""
    remedy = "Send it again. It may take as long as it likes, with no pause of 45 seconds."
    return ProblemError(408, "too-silent", "No more of the body came for 45 seconds, after 7 bytes; nothing of it was kept.", remedy=remedy)


@pytest.mark.parametrize("arguments", [("-m", "gridweave", "submit", "work.py:f"), ("script.py",)])
def test_a_terminal_sees_how_far_an_upload_is(gateway: Gateway, folder: Path, arguments: tuple[str, ...]) -> None:
    """Minutes of a spinner that says "submitting" look like a fault."""
    gateway.uploads_stall = True
    _, seen = on_terminal(folder, *arguments, interrupt_at="uploading ")
    assert " of 16.0 MiB" in seen.partition("uploading ")[2]
    assert "nothing was submitted" in seen
    assert {} == gateway.runs


def test_a_terminal_sees_how_far_the_packing_of_a_folder_is(gateway: Gateway, folder: Path) -> None:
    """It may take as long as the upload. Ctrl-C in it leaves nothing."""
    (folder / "data" / "weights").write_bytes(os.urandom(6 * SIZE))
    _, seen = on_terminal(folder, "-m", "gridweave", "submit", "work.py:f", interrupt_at=" of 96.0 MiB")
    assert "packing " in seen
    assert "nothing was submitted" in seen
    assert {} == gateway.runs


def test_a_pipe_is_told_that_a_large_folder_is_packed(gateway: Gateway, folder: Path) -> None:
    """Once, and of a small one nothing."""
    (folder / "data" / "weights").write_bytes(bytes(6 * SIZE))
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    command = [sys.executable, "-m", "gridweave", "submit", "work.py:f", "--detach"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert "packing 96.0 MiB\n" == done.stderr


def test_ctrl_c_in_an_upload_ends_it_in_one_line(gateway: Gateway, folder: Path) -> None:
    """Nothing went wrong but that somebody changed his mind. In a pipe one line has said what takes time."""
    gateway.uploads_stall = True
    env = {**os.environ, "PYTHONPATH": str(SDK)}
    command = [sys.executable, "-m", "gridweave", "submit", "work.py:f"]
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "uploading 16.0 MiB\n" == process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert ("", "interrupted: nothing was submitted\n") == process.communicate(timeout=30)
    assert 130 == process.returncode


def test_a_small_upload_is_not_told_of_in_a_pipe(gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    """A log file should hold what somebody will want to know."""
    data = os.urandom(100_000)
    assert 100_000 == gw.function(len).spawn(data).result()
    assert 1 == gateway.calls[f"PUT {next(iter(gateway.blobs))}"]
    assert "" == capsys.readouterr().err


def test_a_map_says_what_it_uploads(gateway: Gateway, folder: Path) -> None:
    """Its line is there anyway, and would say that nothing is done."""
    gateway.upload_pause = 1
    (folder / "many.py").write_text("import work\nprint(list(work.f.starmap([()])))\n")
    out, seen = on_terminal(folder, "many.py")
    assert "[None]\n" == out
    assert "0 of 1 done · 0 in flight · uploading " in seen


def test_ctrl_c_in_a_map_breaks_its_uploads_off(gateway: Gateway, folder: Path) -> None:
    """Nobody waits for half a gigabyte to go, to be told that nothing will come of it."""
    gateway.uploads_drip = True
    (folder / "many.py").write_text("import work\nprint(list(work.f.starmap([()])))\n")
    _, seen = on_terminal(folder, "many.py", interrupt_at=" of 16.0 MiB")
    assert "KeyboardInterrupt" in seen
    assert ({}, {}) == (gateway.runs, gateway.blobs)


@pytest.mark.parametrize("dropped", [0, 1])
def test_an_upload_that_stalled_or_broke_off_is_sent_anew(gateway: Gateway, dropped: int) -> None:
    """However long it had taken until then: the patience with it begins when it breaks."""
    gateway.upload_problems, gateway.upload_drops, gateway.upload_pause = [] if dropped else [silent()], dropped, 1.5
    with gw.Client(gateway.url, retry_for=1) as client:
        gw.use(client)
        try:
            assert 100_000 == gw.function(len).spawn(os.urandom(100_000)).result(timeout=60)
        finally:
            gw.use(None)
    assert 2 - dropped == sum(calls for route, calls in gateway.calls.items() if route.startswith("PUT "))
    assert 1 == len(gateway.runs)


def test_an_upload_that_cannot_go_through_is_not_blamed_on_the_url(gateway: Gateway, payload: Payload) -> None:
    """The gateway had just said where to send it."""
    with gw.Client(gateway.url, retry_for=0) as client:
        gateway.upload_problems = [silent()]
        with pytest.raises(gw.Unavailable, match=r"^What was being sent has stalled on its way: No more .*\. Send it again\.") as caught:
            client.upload(payload)
        assert "GRIDWEAVE_URL" not in str(caught.value)
        gateway.upload_drops = 1
        with pytest.raises(gw.Unavailable, match=rf"^The upload to {gateway.url} broke off \(.*\)\. Try again") as caught:
            client.upload(payload)
        assert "GRIDWEAVE_URL" not in str(caught.value)
        gateway.close()
        with pytest.raises(gw.Unavailable, match="does not answer") as caught:
            client.upload(payload)
        assert "GRIDWEAVE_URL" not in str(caught.value)


@pytest.fixture
def payload() -> Iterator[Payload]:
    made = Payload()
    made.write(os.urandom(1_000_000))
    yield made
    made.close()
