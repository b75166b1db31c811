"""What the measurements of the main job stand on: one real Ray with its Job Submission API, and a real gateway on it.

Everything is on this machine's loopback, in a folder of its own, and is stopped at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from adapters.ray.leftovers import end_runs

LABELS = "gridweave.io/node=bench,gridweave.io/owner=org,gridweave.io/gpus=8xA100-80GB"
ROOT = Path(__file__).parents[1]
USER = {"X-User-Id": "bench", "X-User-Plan": "free", "X-Platform-Token": "platform-token-of-the-benchmark"}
ADMIN = "admin-token-of-the-benchmark"
STARTS_WITHIN_S = 120


@frozen
class Standing:
    """gateway, dashboard: base URLs. ray: the head's address. folder: of logs and state. env: of the gateway. pid: of its first
    process, which leads a group of its own."""

    gateway: str
    dashboard: str
    ray: str
    folder: Path
    env: dict[str, str]
    pid: int

    @property
    def worker(self) -> int:
        """The pid of the process that serves."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def standing(**settings: str) -> Iterator[Standing]:
    """settings: of the gateway, beside those that it needs here."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all is stopped then too
    folder = Path(tempfile.mkdtemp(prefix="gridweave-bench-"))
    port, dashboard, own = free_port(), free_port(), free_port()
    scrubbed = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "GRIDWEAVE_"))}
    env = scrubbed | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    say("starting a Ray with its Job Submission API")
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    start = [*ray, "start", "--head", f"--port={port}", f"--dashboard-port={dashboard}", "--dashboard-host=127.0.0.1", f"--labels={LABELS}"]
    start += ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}/ray", "--num-cpus=4", "--num-gpus=0", "--object-store-memory=200000000"]
    head = subprocess.Popen([*start, "--block"], cwd=folder, env=env, stdout=(folder / "ray.log").open("w"), stderr=subprocess.STDOUT)
    gateway = None
    try:
        answers(f"http://127.0.0.1:{dashboard}/api/version", head, folder / "ray.log")
        say("starting a gateway")
        wanted = {
            "GATEWAY_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(own),
            "STATE_DIR": str(folder / "state"),
            "RAY_HEAD_ADDRESS": f"127.0.0.1:{port}",
            "PLATFORM_TOKEN": USER["X-Platform-Token"],
            "ADMIN_TOKEN": ADMIN,
            **settings,
        }
        gateway = start_gateway(env | wanted, folder)
        answers(f"http://127.0.0.1:{own}/readyz", gateway, folder / "gateway.log")
        yield Standing(f"http://127.0.0.1:{own}", f"http://127.0.0.1:{dashboard}", f"127.0.0.1:{port}", folder, env | wanted, gateway.pid)
    finally:
        for process in (gateway, head):
            if process is not None:
                process.terminate()
                process.wait(60)
        end_runs(folder / "state" / "agents")
        shutil.rmtree(folder, ignore_errors=True)


def start_gateway(env: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    """In a process group of its own. It does not listen yet."""
    return subprocess.Popen(
        [sys.executable, "-m", "runtimes.http.gateway"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "gateway.log").open("a"),
        start_new_session=True,
    )


def answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it answers with 200."""
    for _ in range(STARTS_WITHIN_S * 4):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - our own address
            if answer.status == 200:
                return
        if process.poll() is not None:
            break
        time.sleep(0.25)
    raise SystemExit(f"it did not start: {url}\n{log.read_text()[-3000:]}")


def say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


def finish(result: dict[str, object]) -> None:
    """One JSON object, last."""
    print(json.dumps(result))
