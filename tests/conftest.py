"""What holds for every test: how Hypothesis searches, where GPU tests run, what each suite costs, and nothing left alive.

Every process of a run inherits a mark in its environment. When the session ends, each process that still carries the
mark is named, ended, and makes the run fail: a test that forgets a server would break the next run, not its own.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pynvml
import pytest
from attrs import frozen
from hypothesis import HealthCheck, settings

from tests.kube.binaries import MISSING, REMEDY
from tests.kube.fixtures import admin, client, core_api, namespace, own_plane, plane
from tests.s3.fixtures import s3_blobs, s3_connection, seaweed

__all__ = ["admin", "client", "core_api", "namespace", "own_plane", "plane"]  # fixtures of every suite that needs a real Kubernetes
__all__ += ["s3_blobs", "s3_connection", "seaweed"]  # and of those that need a real S3

MARK = "GRIDWEAVE_TEST_RUN"
SUITES = ("unit", "properties", "money", "contract", "s3", "kube", "e2e")
REAL = {"contract", "e2e", "kube", "s3", "money"}  # suites of whole processes; see `pytest_terminal_summary`
ROUNDS_OF_GRACE = 30  # looks at the process table, a tenth of a second apart, before a dying process counts as left alive

# Machines are noisy: neither a slow example nor slow generation is a failure. A failure prints the blob that replays it.
_quiet = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _quiet, max_examples=100)
settings.register_profile("dev", _quiet, max_examples=50)
settings.register_profile("long", _quiet, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

# A shell lets what it starts in the background ignore Ctrl-C, and so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# ---------------------------------------------------------------- GPUs


def _why_no_gpu() -> str:
    """Why no test can use a GPU here; empty if one can."""
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return f"no NVIDIA driver answers: {error}"
    return "" if count else "the NVIDIA driver knows of no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if REAL & set(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=1))
    wanting = [item for item in items if item.get_closest_marker("gpu")]
    if wanting and (reason := _why_no_gpu()):
        for item in wanting:
            item.add_marker(pytest.mark.skip(reason=reason))


# ---------------------------------------------------------------- nothing is left alive


@frozen
class Process:
    """A process that is not a zombie. test: the one that was running when it was started, if that can be told."""

    pid: int
    parent: int
    command: str
    mark: str
    test: str


def processes() -> Iterator[Process]:
    """Every process whose environment may be read. Gives none where there is no /proc."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            environ = dict(
                each.split("=", 1) for each in (folder / "environ").read_bytes().decode(errors="replace").split("\0") if "=" in each
            )
            command = (folder / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
        except OSError:  # it ended while we looked, or is another user's
            continue
        if state not in "ZX":
            yield Process(int(folder.name), int(parent), command, environ.get(MARK, ""), environ.get("PYTEST_CURRENT_TEST", ""))


def left_alive(mark: str) -> list[Process]:
    """Processes of this run that should be gone: those with its mark, and children that were forked without a new program.

    pytest itself is not one; nor are multiprocessing's own keepers, which end with the process that they serve.
    """
    ours = os.getpid()
    keepers = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
    return [
        each
        for each in processes()
        if each.pid != ours
        and (each.mark == mark or each.parent == ours)
        and not (each.parent == ours and any(keeper in each.command for keeper in keepers))
    ]


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker of xdist inherits the mark of the run
        os.environ[MARK] = secrets.token_hex(8)


@pytest.hookimpl(trylast=True)  # after xdist has ended its workers
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return
    for _ in range(ROUNDS_OF_GRACE):
        if not (left := left_alive(os.environ[MARK])):
            return
        time.sleep(0.1)
    said = [f"pid {each.pid}: {each.command}" + (f"\n    started in {each.test}" if each.test else "") for each in left]
    for each in left:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    text = "\n".join(["these processes outlived the tests that started them, and were ended now:", *said])
    report = pytest.TestReport("processes left alive", ("tests", None, ""), {}, "failed", text, "teardown")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.stats.setdefault("error", []).append(report)
    session.exitstatus = pytest.ExitCode.TESTS_FAILED


# ---------------------------------------------------------------- what each suite costs


def wall_seconds(spans: list[tuple[float, float]]) -> float:
    """How long at least one of the spans (start, stop) was going on."""
    total, until = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, until))
        until = max(until, stop)
    return total


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spans: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for report in (each for reports in terminalreporter.stats.values() for each in reports if isinstance(each, pytest.TestReport)):
        suite = next((part for part in Path(report.nodeid.partition("::")[0]).parts if part in SUITES), "")
        if suite:
            spans[suite].append((report.start, report.stop))
            tests[suite].add(report.nodeid)
    _show_repeats(terminalreporter)
    if spans:
        terminalreporter.section("wall time of each suite")
    for suite in (each for each in SUITES if each in spans):
        terminalreporter.write_line(f"{suite:<12}{len(tests[suite]):>6} tests {wall_seconds(spans[suite]):>8.1f} s")


def _show_repeats(terminalreporter: pytest.TerminalReporter) -> None:
    """A test of whole processes that fails is run once more, since a machine that stands still for a while looks like a fault of
    ours. The closing line counts it, and here is why it failed: whoever sees one twice has found a fault."""
    repeated = terminalreporter.stats.get("rerun", ())
    if repeated:
        terminalreporter.section("failed at first, and were run again")
    for report in repeated:
        terminalreporter.write_line(f"____ {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of all: what could not be run here, and how it could."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    without = [each for each in reporter.stats.get("skipped", ()) if MISSING in str(each.longrepr)]
    if without:
        reporter.write_line(f"{len(without)} tests were skipped for want of a Kubernetes control plane. To run them: {REMEDY}")
