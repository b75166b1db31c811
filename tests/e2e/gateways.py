"""A gateway as it is run: a process of its own, known by its URL, its log and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
from attrs import define, field

from tests.canaries import S3_SECRET

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join(str(ROOT / part) for part in ("", "sdk", "agent"))
LOOKS = 600  # a tenth of a second apart
KEYS = {"S3_ACCESS_KEY": "AKIDOFNOBUCKET", "S3_SECRET_KEY": S3_SECRET}  # of a gateway without a bucket, too
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "GRIDWEAVE_TEST_RUN", "PYTEST_CURRENT_TEST")
_KEPT_PREFIXES = ("UV_", "PIP_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy")


@define
class Gateway:
    """settings: by variable, beside STATE_DIR. arguments: of the command line."""

    state: Path
    settings: Mapping[str, str]
    arguments: tuple[str, ...] = ()
    port: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All that it wrote to stderr, in every life."""
        return (self.state / "gateway.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Returns when it listens; the same port as in its last life."""
        self.state.mkdir(parents=True, exist_ok=True)
        env = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
        with (self.state / "gateway.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runtimes.http.gateway", "--port", str(self.port), *self.arguments],
                cwd=ROOT,
                env={**env, "PYTHONPATH": SOURCES, "STATE_DIR": str(self.state), **KEYS, **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self._process.stdout.close()
        if not said:
            raise AssertionError(f"the gateway did not start:\n{self.log[-3000:]}")
        self.port = int(said.rpartition(":")[2])

    def ready(self) -> None:
        """Wait until it would run new work."""
        self._until(lambda: httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200)

    def answers(self) -> None:
        """Wait until it answers at all."""
        self._until(lambda: httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200)

    def _until(self, fulfilled: object) -> None:
        assert callable(fulfilled)
        for _ in range(LOOKS):
            assert self._process is not None
            assert self._process.poll() is None, f"the gateway ended:\n{self.log[-3000:]}"
            try:
                if fulfilled():
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        raise AssertionError(f"the gateway did not become ready:\n{self.log[-3000:]}")

    def kill(self) -> None:
        """SIGKILL to every process of it, as a machine's end would."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; gives its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
