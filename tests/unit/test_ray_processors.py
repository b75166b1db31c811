"""Where what we start may run."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from adapters.ray.processors import every_processor
from runtimes.http.one_processor import _free, keep_to_one

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
    assert f"{whole}\n" == seen[0]
    assert seen[1] in {f"{[each]}\n" for each in whole}
    assert whole == sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("siblings", "chosen"),
    [
        ([(True, {0, 1})], 0),
        ([(False, {0, 1}), (True, {0, 1})], 1),
        ([(False, {0}), (True, {0, 1})], 1),
        ([(False, {1}), (True, {0, 1})], 0),
        ([(False, {0}), (False, {1}), (True, {0, 1})], 0),
        ([], 0),
    ],
)
def test_workers_take_processors_that_none_of_them_has(siblings: list[tuple[bool, set[int]]], chosen: int) -> None:
    """Two on one would be half of what the machine can do; also after one was killed and comes again."""
    assert chosen == _free([(own, frozenset(kept)) for own, kept in siblings], [0, 1])
