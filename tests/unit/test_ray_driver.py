"""The child process that imports ray: what its parent sees when there is no cluster, and when the parent dies."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from adapters.ray.process import DriverProcess
from adapters.ray.sessions import process_id
from ports.cluster import STARTING
from ports.errors import Unavailable
from ports.units import Span

ROUNDS = 600


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where connections are accepted and nothing is ever said, as by a head that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_cluster_that_does_not_answer_is_unavailable_and_its_driver_is_killed(silent: str) -> None:
    """`ray.init` to such a head hangs for minutes; whoever asks must not."""
    driver = DriverProcess(lambda: silent, b"", starts_within=Span(500), answers_within=Span(1000))
    try:
        with pytest.raises(Unavailable, match="no connection in"):
            driver.ask("nodes")
        first = driver.pid
        with pytest.raises(Unavailable):
            driver.ask("nodes")
        assert None not in (first, driver.pid)
        assert first != driver.pid
    finally:
        driver.close()
    assert driver.pid is None or process_id(driver.pid) is None
    with pytest.raises(Unavailable, match="closed"):
        driver.ask("ping")


def test_why_there_is_no_cluster_is_told_to_whoever_asks() -> None:
    """An operator reads this in /readyz; "unavailable" alone would send him to the wrong place."""

    def connect() -> str:
        raise Unavailable("ray", "the node environment can't be made: no such package")

    driver = DriverProcess(connect, b"")
    try:
        with pytest.raises(Unavailable, match="no such package"):
            driver.ask("nodes")
    finally:
        driver.close()


def test_a_driver_whose_cluster_has_died_is_replaced_at_the_next_request(silent: str) -> None:
    """It would go on to answer for a cluster that carries nobody any more."""
    faults = [""]
    driver = DriverProcess(lambda: silent, b"", answers_within=Span(200), fault=lambda: faults[0])
    try:
        while driver.pid is None:
            with pytest.raises(Unavailable, match=STARTING):
                driver.ask("ping")
        first = driver.pid
        faults[0] = "the head died"
        with pytest.raises(Unavailable, match="the head died"):
            driver.ask("ping")
        faults[0] = ""
        while driver.pid in (first, None):
            with pytest.raises(Unavailable, match=STARTING):
                driver.ask("ping")
        assert process_id(first) is None
    finally:
        driver.close()


def test_a_cluster_that_can_not_be_had_is_tried_for_with_growing_pauses() -> None:
    """Whoever asks may ask often; a machine that has no room for Ray must not be kept busy with starting it."""
    tried: list[int] = []

    def connect() -> str:
        tried.append(len(tried))
        raise Unavailable("ray", "no space left")

    driver = DriverProcess(connect, b"")
    try:
        for _ in range(200):
            with pytest.raises(Unavailable, match="no space left"):
                driver.ask("nodes")
    finally:
        driver.close()
    assert 2 <= len(tried) < 20


def test_no_driver_outlives_a_parent_that_is_killed(silent: str, tmp_path: Path) -> None:
    """A gateway killed by -9 leaves nothing behind that holds connections or memory."""
    parent_code = f"""
        import time
        from adapters.ray.process import DriverProcess
        from ports.errors import Unavailable
        from ports.units import Span
        driver = DriverProcess(lambda: {silent!r}, b"", answers_within=Span(100))
        try:
            driver.ask("ping")
        except Unavailable:
            pass
        while driver.pid is None:
            time.sleep(0.01)
        print(driver.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(parent_code)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = process_id(int(parent.stdout.readline()))
        assert child is not None
        os.kill(parent.pid, signal.SIGKILL)
    for _ in range(ROUNDS):
        if not child.alive:
            return
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    pytest.fail("the driver outlived its parent")
