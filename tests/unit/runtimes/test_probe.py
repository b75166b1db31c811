"""The scheduler's probe: 200 while its loop comes round, 503 when it does not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from adapters.local.clock import SystemClock
from ports.errors import Unavailable
from ports.leadership import Holder
from ports.units import Span
from runtimes.batch import host as hosting
from runtimes.batch.host import Host
from runtimes.batch.probe import STUCK_AFTER, probe
from tests.e2e.gateways import ROOT, SOURCES


@pytest.mark.parametrize(("silent", "status", "said"), [(0, 200, "ok"), (STUCK_AFTER.ms - 1, 200, "ok"), (STUCK_AFTER.ms, 503, "stuck")])
def test_it_answers_for_the_loop(silent: int, status: int, said: str) -> None:
    """The kubelet starts anew what is stuck, and nothing else: neither one that stands by nor one whose API server is away."""
    with probe("127.0.0.1", 0, lambda: Span(silent), lambda: False) as port, httpx.Client(trust_env=False) as client:
        for path in ("/healthz", "/readyz"):
            answer = client.get(f"http://127.0.0.1:{port}{path}")
            assert (status, said, False) == (answer.status_code, answer.json()["status"], answer.json()["scheduling"])
        assert 404 == client.get(f"http://127.0.0.1:{port}/metrics").status_code


class Never:
    """Somebody else schedules, or nobody can be asked; counts how often it was asked."""

    def __init__(self, error: Unavailable | None = None) -> None:
        self.asked, self._error, self.host = 0, error, None

    def acquire(self) -> bool:
        self.asked += 1
        if self.asked >= 3:
            assert self.host is not None
            self.host._stop.set()
        if self._error is not None:
            raise self._error
        return False

    def release(self) -> None:
        return

    def holder(self) -> Holder | None:
        return None


@pytest.mark.parametrize("error", [None, Unavailable("the Kubernetes API", "it was stopped")])
def test_one_that_stands_by_comes_round(error: Unavailable | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether another one holds the Lease or the API server is away: it is not stuck."""
    monkeypatch.setattr(hosting, "LOCK_EVERY_S", 0.01)
    clock, never, unused = Steps(), Never(error), None
    host = Host(House(clock), never, unused, unused, unused, Span(1))  # type: ignore[arg-type]
    never.host = host  # type: ignore[assignment]
    assert Span(0) == host.silent()
    host.run()
    assert 3 == never.asked
    assert Span(1) == host.silent()  # of a clock that goes on by one with each look
    assert not host.scheduling


class Steps(SystemClock):
    """A clock that goes on by a millisecond with each look."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0

    def elapsed(self) -> Span:
        self.at += 1
        return Span(self.at)


class House:
    def __init__(self, clock: Steps) -> None:
        self.clock = clock


def test_a_scheduler_answers_while_its_engine_is_away(tmp_path: Path) -> None:
    """The real program: a Ray that does not answer is no reason to start the scheduler anew."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"STATE_DIR": str(tmp_path), "ADMIN_TOKEN": "admin-token-of-the-tests", "RAY_HEAD_ADDRESS": "127.0.0.1:1"}
    env = {**os.environ, "PYTHONPATH": SOURCES, **settings, "PROBE_PORT": str(port)}
    command = [sys.executable, "-m", "runtimes.batch", "schedule"]
    with subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL) as process:
        try:
            assert "ok" == asked(process, f"http://127.0.0.1:{port}/readyz")["status"]
            process.terminate()
            assert 0 == process.wait(60)
        finally:
            process.kill()


def asked(process: subprocess.Popen[bytes], url: str) -> dict[str, object]:
    """What it says once it schedules; a bounded number of looks."""
    with httpx.Client(trust_env=False) as client:
        for _ in range(600):
            assert process.poll() is None
            try:
                told: dict[str, object] = client.get(url).json()
            except httpx.TransportError:
                told = {}
            if told.get("scheduling"):
                return told
            time.sleep(0.1)
    raise AssertionError("it does not schedule")
