"""The hygiene of the tests themselves, by real runs of pytest over small suites that break it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import processes, wall_seconds

CONFTEST = Path(__file__).parents[1] / "conftest.py"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
LEAVES_A_PROCESS = """
import subprocess
def test_that_forgets_its_server():
    subprocess.run(["sh", "-c", "exec >/dev/null 2>&1; setsid sleep 600 &"], check=True)
"""
FORKS = """
import os, time
def test_that_forks():
    if os.fork() == 0:
        time.sleep(600)
"""


def run(folder: Path, test: str, *options: str) -> tuple[int, str]:
    """Run one test file under our conftest and settings; gives exit code and output."""
    suite = folder / "tests" / "e2e"
    suite.mkdir(parents=True)
    (suite / "test_it.py").write_text(test)
    shutil.copy(CONFTEST, folder / "tests")
    for name in ("kube/binaries.py", "kube/fixtures.py", "kube/plane.py", "s3/fixtures.py", "s3/seaweed.py", "canaries.py", "sinks.py"):
        (folder / "tests" / name).parent.mkdir(exist_ok=True)  # fixtures that every suite is given
        shutil.copy(CONFTEST.parent / name, folder / "tests" / name)
    shutil.copy(PYPROJECT, folder)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GRIDWEAVE_TEST"))}
    environ["PYTHONPATH"] = str(PYPROJECT.parent)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore:This process", *options]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("options", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_process_that_outlives_its_test_fails_the_run_and_is_ended(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A server left behind breaks the next run, on another day, at somebody else's: it must fail this one, by name."""
    code, said = run(tmp_path, LEAVES_A_PROCESS, *options)
    assert 1 == code, said
    pid = re.search(r"pid (\d+): sleep 600", said)
    assert pid is not None, said
    assert "started in tests/e2e/test_it.py::test_that_forgets_its_server" in said
    assert "1 passed, 1 error" in said
    assert int(pid[1]) not in {each.pid for each in processes()}


def test_a_child_that_was_forked_without_a_new_program_is_found_too(tmp_path: Path) -> None:
    """Such a child shows the environment of before the run, without the mark: its parent gives it away."""
    code, said = run(tmp_path, FORKS)
    assert (1, True) == (code, "these processes outlived" in said), said


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_clean_run_passes_and_tells_what_each_suite_cost(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The workers of xdist, and multiprocessing's own keepers, are no leftovers."""
    keeper = "from multiprocessing import resource_tracker\ndef test_it(): resource_tracker.ensure_running()\n"
    code, said = run(tmp_path, keeper, *options)
    assert 0 == code, said
    assert re.search(r"^e2e +1 tests +\d+\.\d s$", said, re.MULTILINE), said


def test_a_gpu_test_is_skipped_with_the_driver_s_own_reason(tmp_path: Path) -> None:
    """A skip without a reason hides a driver that has broken."""
    code, said = run(tmp_path, "import pytest\n@pytest.mark.gpu\ndef test_it(): pass\n")
    assert 0 == code, said
    assert "1 passed" in said or re.search(r"SKIPPED .* (no NVIDIA driver answers: .+|the NVIDIA driver knows of no GPU)", said), said


@pytest.mark.parametrize(
    ("seconds", "spans"),
    [
        (0.0, []),
        (2.0, [(1.0, 3.0)]),
        (3.0, [(2.0, 4.0), (1.0, 3.0)]),
        (2.0, [(0.0, 1.0), (5.0, 6.0)]),
        (9.0, [(0.0, 9.0), (1.0, 2.0), (3.0, 4.0)]),
    ],
)
def test_time_in_which_two_workers_overlap_counts_once(seconds: float, spans: list[tuple[float, float]]) -> None:
    """Wall time is what one waits for; the sum over workers is not."""
    assert seconds == wall_seconds(spans)
