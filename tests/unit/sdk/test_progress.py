"""The progress line: on a terminal only, below the log, gone at the end."""

from __future__ import annotations

import os
import pty
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


def on_terminal(folder: Path) -> tuple[str, str]:
    """stdout, and what a terminal as stderr saw."""
    here, there = pty.openpty()
    env = {**os.environ, "PYTHONPATH": str(SDK), "TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen([sys.executable, "script.py"], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=there, text=True)
    os.close(there)
    seen: list[bytes] = []

    def read() -> None:
        try:
            while piece := os.read(here, 65536):
                seen.append(piece)
        except OSError:  # the other side is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=60)
    reader.join()
    os.close(here)
    return out, b"".join(seen).decode()


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
