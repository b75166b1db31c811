"""The parent's side of the driver: started on first use, asked with deadlines, killed and started anew when it hangs.

Whoever asks waits for his own deadline and for nobody else's. An answer that does not come means that the driver
hangs: it is killed, everybody who waits on it is told, and the next request starts another. So it is with one whose
cluster is known to be dead: the next one connects anew, and so brings a cluster of ours back. Drivers that end soon after
their start are followed by others with growing pauses.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, cast

from adapters.ray.processors import every_processor
from ports.cluster import STARTING
from ports.errors import Unavailable
from ports.units import Span

NAMESPACE = "gridweave"
_ROOT = str(Path(__file__).parents[2])
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER", "SSL_CERT_FILE")
_LINES = 20  # of its stderr are kept, to say why it died
_STEADY_S = 60.0  # a driver that was connected for so long did not end for a lasting reason
_LONGEST_PAUSE_S = 15.0


class DriverProcess:
    """Thread-safe. connect: gives the cluster's address; it is called in a thread of its own, before each start, and
    may take its time. package: the agent's zip. env: added to a scrubbed environment (RAY_AUTH_MODE is always set).
    starts_within: after that a driver that has not connected is given up. answers_within: of an ordinary request.
    fault: why what `connect` last gave is of no use any more, "" while it is; asked before each request, so it must not wait."""

    def __init__(
        self,
        connect: Callable[[], str],
        package: bytes,
        env: Mapping[str, str] = {},
        *,
        starts_within: Span = Span(60_000),
        answers_within: Span = Span(10_000),
        fault: Callable[[], str] = lambda: "",
    ) -> None:
        self._connect, self._package, self._fault = connect, package, fault
        self._env = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        self._env |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", **env, "PYTHONPATH": _ROOT}
        self._starts_within, self._answers_within = starts_within, answers_within
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._closed = False

    def ask(self, op: str, within: Span | None = None, **arguments: Any) -> Any:
        """The driver's answer. Raises Unavailable if there is none `within` that time, or if it is an error."""
        within = within or self._answers_within
        child = self._current()
        try:
            return child.send(op, arguments).result(within.seconds)
        except TimeoutError:
            raise Unavailable("ray", self._given_up(child, f"no answer to {op} in {within.seconds:g} s")) from None

    def _given_up(self, child: _Child, silence: str) -> str:
        """Why there is no answer; a driver that won't give any more is killed."""
        if not child.connected:
            if child.age_s <= self._starts_within.seconds:
                return STARTING
            silence = f"no connection in {self._starts_within.seconds:g} s"
        child.kill(silence)
        return silence

    @property
    def pid(self) -> int | None:
        """Of the present driver."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """End the driver and wait for its end. No request after that is answered."""
        with self._lock:
            self._closed = True
            child = self._child
        if child is not None:
            child.kill("it was closed")
            child.join()

    def _current(self) -> _Child:
        with self._lock:
            if self._closed:
                raise Unavailable("ray", "the connection was closed")
            child = self._child
            if child is not None and child.located and not child.ended and (fault := self._fault()):
                child.kill(fault)
                raise Unavailable("ray", fault)  # whoever asks next starts another
            if child is None or child.ended:
                child = self._child = _Child(self._connect, self._package, self._env, _failures_after(child))
            return child


def _failures_after(child: _Child | None) -> int:
    """How many drivers have failed in a row. Raises Unavailable while it is too early for the next one."""
    if child is None or child.steady:
        return 0
    failures: int = child.failures + 1
    pause = min(_LONGEST_PAUSE_S, 2.0 ** (failures - 2)) if failures > 1 else 0.0
    if time.monotonic() < child.ended_at + pause:
        raise Unavailable("ray", child.why)
    return failures


class _Child:
    """One driver from its start to its end, and the requests that wait on it.

    The thread that starts it lives as long as it does: the kernel ends a child (PR_SET_PDEATHSIG) with the thread
    that made it. failures: of how many before it, in a row. located: it has been given the cluster's address. why: it ended.
    """

    def __init__(self, connect: Callable[[], str], package: bytes, env: dict[str, str], failures: int) -> None:
        self._connect, self._package, self._env = connect, package, env
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Any]] = {}
        self._asked = 0
        self._outbox: SimpleQueue[str] = SimpleQueue()
        self._process: subprocess.Popen[str] | None = None
        self._stderr: deque[str] = deque(maxlen=_LINES)
        self.why = ""
        self._born = time.monotonic()
        self._connected_at: float | None = None
        self.failures = failures
        self.located = False
        self.ended = False
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._live, name="ray-driver", daemon=True)
        self._thread.start()

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._born

    @property
    def connected(self) -> bool:
        return self._connected_at is not None

    @property
    def steady(self) -> bool:
        """Whether, at its end, it had been connected for long."""
        return self._connected_at is not None and self.ended_at - self._connected_at >= _STEADY_S

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def send(self, op: str, arguments: dict[str, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self.ended:
                future.set_exception(Unavailable("ray", self.why))
                return future
            self._asked += 1
            self._waiting[self._asked] = future
            self._outbox.put(json.dumps({"id": self._asked, "op": op, **arguments}))
        return future

    def kill(self, why: str) -> None:
        """Everybody who waits on it is told why."""
        with self._lock:
            self.why = self.why or why
            if self._process is not None:
                self._process.kill()
        self._end()

    def join(self) -> None:
        self._thread.join()

    def _live(self) -> None:
        try:
            address = self._connect()
        except Unavailable as error:
            self.why = error.detail
        except Exception as error:  # whatever it was, those who wait must hear of it
            self.why = f"{type(error).__name__}: {error}"
        else:
            self.located = True
            self._run(address)
        self._end()

    def _run(self, address: str) -> None:
        with self._lock:
            if self.ended:
                return
            with every_processor():
                self._process = process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "adapters.ray.driver"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self._env,
                    cwd="/",
                    text=True,
                    start_new_session=True,  # a Ctrl-C at the terminal is not meant for it
                )
        first = {"address": address, "namespace": NAMESPACE, "package": base64.b64encode(self._package).decode()}
        threads = [threading.Thread(target=self._write, args=(process, json.dumps(first)), daemon=True)]
        threads += [threading.Thread(target=self._listen, args=(process,), daemon=True)]
        for thread in threads:
            thread.start()
        stdout = cast(IO[str], process.stdout)
        for line in stdout:
            self._answered(json.loads(line))
        code = process.wait()
        threads[1].join()
        self.why = self.why or f"the driver ended with code {code}: {' '.join(self._stderr)[-500:]}"
        self._outbox.put("")
        threads[0].join()
        stdout.close()

    def _write(self, process: subprocess.Popen[str], first: str) -> None:
        """Send what is in the outbox, in a thread of its own: a stopped child must block nobody who asks."""
        line = first
        with suppress(OSError), cast(IO[str], process.stdin) as stdin:  # if it is dead, whoever waits is told by the reader
            while line:
                stdin.write(line + "\n")
                stdin.flush()
                line = self._outbox.get()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        with cast(IO[str], process.stderr) as stderr:
            self._stderr.extend(line.strip() for line in stderr)

    def _answered(self, answer: dict[str, Any]) -> None:
        if answer["id"] == 0:
            if "error" not in answer:
                self._connected_at = time.monotonic()
            self.why = self.why or answer.get("error", "")
            return
        with self._lock:
            future = self._waiting.pop(answer["id"], None)
        if future is None:
            return
        if "error" in answer:
            future.set_exception(Unavailable("ray", answer["error"]))
        else:
            future.set_result(answer["value"])

    def _end(self) -> None:
        with self._lock:
            self.ended_at = self.ended_at or time.monotonic()
            self.ended = True
            waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            future.set_exception(Unavailable("ray", self.why))
