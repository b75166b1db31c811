"""The scheduler's probe: 200 while its loop comes round, 503 when it does not."""

from __future__ import annotations

import httpx
import pytest

from adapters.local.clock import SystemClock
from ports.errors import Unavailable
from ports.leadership import Holder
from ports.units import Span
from runtimes.batch import host as hosting
from runtimes.batch.host import Host
from runtimes.batch.probe import STUCK_AFTER, probe


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
    host = Host(House(clock), never, unused, unused, unused, unused, Span(1))  # type: ignore[arg-type]
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
