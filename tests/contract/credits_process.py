"""A `gridweave-credits` as it is run: a process of its own, known by its URL, and by how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from tests import sinks
from tests.canaries import ADMIN_TOKEN, Canaries

ROOT = Path(__file__).parents[2]
TOKEN = ADMIN_TOKEN
_LOST = ("GRIDWEAVE_FAILPOINT", "STATE_DIR", "ADMIN_TOKEN", "CREDITS")


@define
class CreditsProcess:
    """folder: of its journal. settings: beside STATE_DIR and ADMIN_TOKEN."""

    folder: Path
    settings: Mapping[str, str] = field(factory=dict)
    port: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it listens; on the same port as in its last life."""
        self.folder.mkdir(parents=True, exist_ok=True)
        env = {name: value for name, value in os.environ.items() if name not in _LOST}
        with (self.folder / "service.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runtimes.credits", "--port", str(self.port)],
                cwd=ROOT,
                env={**env, "STATE_DIR": str(self.folder), "ADMIN_TOKEN": TOKEN, **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self._process.stdout.close()
        assert said, f"gridweave-credits did not start:\n{(self.folder / 'service.log').read_text()[-3000:]}"
        self.port = int(said.rpartition(":")[2])

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def check_standing(self) -> None:
        """Nothing that it says holds a secret."""
        Canaries().search(sinks.answers(self.url, TOKEN)).check("http/openapi.json", "http/nowhere for stranger")

    def check_left(self) -> None:
        """Nor does anything that it has written."""
        Canaries().search(sinks.files(self.folder, "credits")).check("credits/service.log", "credits/credits.db")

    def ended(self) -> int:
        """Wait until it has ended by itself; gives its exit code."""
        assert self._process is not None
        code = self._process.wait(60)
        self.kill()  # whatever of it is left
        return code

    def kill(self) -> None:
        """SIGKILL to every process of it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(60)

    def stop(self) -> int:
        """SIGTERM; gives its exit code."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(60)
        finally:
            self.kill()
