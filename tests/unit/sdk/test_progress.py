"""The progress line: on a terminal only, below the log, gone at the end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

from gridweave.progress import elapsed, place

from tests.unit.sdk.conftest import SDK
from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Project

SCRIPT = """
import gridweave as gw

@gw.function(vram="8GB")
def slowly():
    import sys, time
    print("one", flush=True)
    time.sleep(0.7)
    sys.stdout.write("half of ")
    sys.stdout.flush()
    time.sleep(0.3)
    print("two", flush=True)
    return 1

print(slowly.remote())
"""


def on_terminal(folder: Path, *arguments: str, interrupt_at: str = "", stdout: bool = False) -> tuple[str, str]:
    """stdout, and what a terminal as stderr saw; as both, if stdout is true. interrupt_at: what Ctrl-C answers."""
    here, there = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(SDK), "TERM": "xterm", "COLUMNS": "200"}
    command = [sys.executable, *(arguments or ("script.py",))]
    process = subprocess.Popen(command, cwd=folder, env=env, stdout=there if stdout else subprocess.PIPE, stderr=there, text=True)
    os.close(there)
    seen = bytearray()

    def read() -> None:
        waits = interrupt_at.encode()
        try:
            while piece := os.read(here, 65536):
                seen.extend(piece)
                if waits and waits in seen:
                    waits = b""
                    process.send_signal(signal.SIGINT)
        except OSError:  # the other side is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join()
    os.close(here)
    return out or "", seen.decode()


def test_the_line_says_where_it_runs_and_what_it_costs(gateway: Gateway, project: Project) -> None:
    """Somebody who waits wants to know for what; the log itself stays as it is."""
    out, seen = on_terminal(project(script=SCRIPT))
    assert "one\nhalf of two\n1\n" == out
    for words in ("slowly", "running", "n1 GPU 0 (A100-80GB)", "credits"):
        assert words in seen
    assert seen.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))


def test_places_and_times_read_well() -> None:
    """One line has to hold eight GPUs."""
    slots = [{"node": "n1", "gpu": 0, "model": "L4"}, {"node": "n1", "gpu": 1, "model": "L4"}, {"node": "n2", "gpu": 0, "model": ""}]
    assert "n1 GPU 0, 1 (L4); n2 GPU 0" == place(slots)
    assert ["7 s", "3:07", "1:02:09"] == [elapsed(seconds) for seconds in (7.9, 187, 3729)]


def test_a_map_says_how_far_it_is(gateway: Gateway, project: Project) -> None:
    """While it waits; what the loop prints stays whole."""
    folder = project(
        script="""
        import gridweave as gw

        @gw.function(name="steps")
        def slowly(x):
            import time
            time.sleep(0.4)
            return x

        for each in slowly.map(range(3), concurrency=2):
            print(each)
        """
    )
    out, seen = on_terminal(folder)
    assert "0\n1\n2\n" == out
    assert all(words in seen for words in ("steps", " of 3 done", "in flight"))


def test_ctrl_c_leaves_neither_line_nor_frames_of_ours(gateway: Gateway, project: Project) -> None:
    """What remains on the screen is what happened: the job is being cancelled."""
    folder = project(script=SCRIPT.replace("time.sleep(0.7)", "time.sleep(60)").replace('vram="8GB"', 'vram="8GB", name="by-name"'))
    _, seen = on_terminal(folder, interrupt_at="n1 GPU 0")
    assert "by-name" in seen
    before, _, after = seen.partition("cancelling job job-")
    assert before.rstrip("\x1b[?25h").endswith("\x1b[2K")
    assert "KeyboardInterrupt" in after
    assert 3 >= after.count('File "')
    assert "httpx" not in after


def test_watching_draws_on_a_screen_of_its_own(gateway: Gateway, project: Project) -> None:
    """And leaves one list behind, not one for every look."""
    folder = project(work="def forever():\n    import time\n    time.sleep(600)\n")
    on_terminal(folder, "-m", "gridweave", "submit", "work.py:forever", "--detach")
    _, seen = on_terminal(folder, "-m", "gridweave", "ps", "--watch", interrupt_at="forever", stdout=True)
    assert "\x1b[?1049h" in seen
    assert 1 == seen.rpartition("\x1b[?1049l")[2].count("forever")
