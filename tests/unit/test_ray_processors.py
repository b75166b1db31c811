"""Where what we start may run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from adapters.ray.processors import every_processor
from runtimes.http.one_processor import keep_to_one

SEES = [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]


def test_what_is_started_may_use_every_processor_of_the_machine() -> None:
    """A gateway keeps to one; the Ray that it starts, and with it every job, must not."""
    whole, seen = sorted(os.sched_getaffinity(0)), list[str]()

    def work() -> None:
        keep_to_one()
        kept = os.sched_getaffinity(0)
        with every_processor():
            seen.append(subprocess.run(SEES, capture_output=True, text=True, check=True).stdout)
        seen.append(subprocess.run(SEES, capture_output=True, text=True, check=True).stdout)
        assert kept == os.sched_getaffinity(0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [f"{whole}\n", f"{[whole[os.getpid() % len(whole)]]}\n"] == seen
    assert whole == sorted(os.sched_getaffinity(0))
