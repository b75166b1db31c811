"""The local Ray of the embedded default: a head of one's own on this machine, which outlives whoever started it.

It runs in a session of its own and is written down before it is started, so a gateway that was killed finds it
again, and whoever stops it ends what was started here and nothing else. It listens on loopback only, knows none
of our secrets, and runs in the node venv. Agents' folders are kept beside it and outlive it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from attrs import evolve, field, frozen

from adapters.ray.leftovers import end_runs
from adapters.ray.processors import every_processor
from adapters.ray.sessions import ProcessId, Session, end, process_id
from adapters.ray.venv import ensure_node_venv
from ports.errors import Unavailable
from ports.units import Span
from ports.wire import dump, load

_PERSON = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_HOME"}
_NETWORK = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
_CERTIFICATES = {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"}
_PASSED_ON = _PERSON | _NETWORK | _CERTIFICATES
_PREFIXES_PASSED_ON = ("UV_", "PIP_")  # where packages of a run's environment come from
_RAY = {
    "RAY_AUTH_MODE": "disabled",  # always explicit: unset, it depends on a file that a mere `ray.init()` writes
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # of the agents, which hand it down
    "RAY_memory_monitor_refresh_ms": "0",  # it would end agents for the memory that users take
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}
# Ray replaces 127.0.0.1 by an address that others can reach. For a head (and a driver) this switch stops it; a raylet
# that joins has no switch.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_JOIN = "import ray._private.services as s; s.get_node_ip_address = lambda *_: '127.0.0.1'; from ray.scripts.scripts import main; main()"
_OBJECT_STORE_BYTES = 100_000_000
_POLL_S = 0.25  # while one is starting, which takes seconds


@frozen
class LocalNode:
    """One raylet and what belongs to it. labels: as it was started with."""

    session: Session
    labels: dict[str, str]

    @property
    def raylet(self) -> ProcessId | None:
        """None if it is gone."""
        return next(iter(self.session.members("raylet")), None)

    @property
    def gcs(self) -> ProcessId | None:
        """The head's store; None on other nodes, or if it is gone."""
        return next(iter(self.session.members("gcs_server")), None)


@frozen
class _State:
    """What is written down. address: "" until the head has started. nodes: the head first."""

    temp: str
    version: str
    address: str = ""
    nodes: tuple[LocalNode, ...] = field(default=())


class LocalRay:
    """home: folder for the node venv, the agents' folders and what is written down. labels: of the head's node.
    progress: is told in words what takes time. starts_within: of one raylet."""

    def __init__(
        self,
        home: Path,
        labels: Mapping[str, str],
        progress: Callable[[str], None] = lambda text: None,
        starts_within: Span = Span(60_000),
    ) -> None:
        self._home, self._labels, self._progress, self._starts_within = home.absolute(), dict(labels), progress, starts_within
        self._file, self._version = self._home / "ray.json", version("ray")
        self._lock = threading.Lock()
        self._carries: dict[str, ProcessId | None] = {}  # processes without which the head that was last given is of no use

    @property
    def agent_dir(self) -> Path:
        """Below it each node has its agent's folder."""
        return self._home / "agents"

    @property
    def nodes(self) -> tuple[LocalNode, ...]:
        """What was started and not stopped, the head first."""
        state = self._read()
        return () if state is None else state.nodes

    def ensure(self) -> str:
        """The head's address, host:port. One that runs is used again. Raises Unavailable if it can't be started."""
        with self._locked():
            state = self._read()
            unfit = "" if state is None else self._unfit(state)
            if state is not None and not unfit:
                return self._given(state)
            self._end(state)
            python = ensure_node_venv(self._home, self._progress)
            self._progress(f"Starting a local Ray{f' anew: {unfit}' if unfit else ''}")
            return self._given(self._start_head(python))

    def fault(self) -> str:
        """Why the head that `ensure` last gave is of no use any more, for people; "" while it is. Never waits."""
        gone = [name for name, process in self._carries.items() if process is None or not process.alive]
        return f"the local Ray's {' and '.join(gone)} died" if gone else ""

    def add_node(self, labels: Mapping[str, str]) -> LocalNode:
        """Start another raylet on this machine; one after another. Raises Unavailable."""
        with self._locked():
            state = self._read()
            if state is None or self._unfit(state):
                raise Unavailable("ray", "the head does not run")
            python = ensure_node_venv(self._home, self._progress)
            return self._start(python, state, labels, ["-c", _JOIN, "start", f"--address={state.address}"], {})

    def end_node(self, node: LocalNode) -> None:
        """End that raylet and all that belongs to it."""
        with self._locked():
            state = self._read()
            end(node.session.members)
            if state is not None:
                self._write(evolve(state, nodes=tuple(each for each in state.nodes if each != node)))

    def stop(self, runs: bool = False) -> None:
        """End all that was started here, also by a process that is gone. runs: those too; otherwise they live on, and
        the next agents adopt them."""
        with self._locked():
            self._end(self._read())
            if runs:
                end_runs(self.agent_dir)

    def _unfit(self, state: _State) -> str:
        """Why that head is not one that we would start and that runs; "" if it is."""
        head = state.nodes[0] if state.address and state.nodes else None
        if head is None:
            return "its start was cut short"
        if head.labels != self._labels or state.version != self._version:
            return "it has other labels or another version"
        return " and ".join(f"its {name} died" for name, process in _carriers(head).items() if process is None)

    def _given(self, state: _State) -> str:
        self._carries = _carriers(state.nodes[0])
        return state.address

    def _end(self, state: _State | None) -> None:
        if state is None:
            return
        for node in reversed(state.nodes):
            end(node.session.members)
        shutil.rmtree(state.temp, ignore_errors=True)
        self._file.unlink(missing_ok=True)

    def _start_head(self, python: Path) -> _State:
        # Sockets' paths have room for about 40 characters before Ray's own, so not below home.
        state = _State(tempfile.mkdtemp(prefix="gridweave-"), self._version)
        head = ["-m", "ray.scripts.scripts", "start", "--head", "--port=0", "--include-dashboard=false", "--no-monitor"]
        self._start(python, state, self._labels, head, LOOPBACK)
        state = self._read() or state
        state = evolve(state, address=(Path(state.temp) / "ray_current_cluster").read_text().strip())
        self._write(state)
        return state

    def _start(self, python: Path, state: _State, labels: Mapping[str, str], command: list[str], env: Mapping[str, str]) -> LocalNode:
        command = [str(python), "-P", *command, "--node-ip-address=127.0.0.1", f"--temp-dir={state.temp}"]
        command += ["--min-worker-port=0", "--max-worker-port=0", "--include-log-monitor=false", "--disable-usage-stats"]
        command += ["--num-cpus=1", "--num-gpus=0", f"--object-store-memory={_OBJECT_STORE_BYTES}"]
        if labels:
            command.append("--labels=" + ",".join(f"{key}={value}" for key, value in labels.items()))
        said = Path(state.temp) / f"start-{len(state.nodes)}.out"  # a file: the daemons would keep a pipe open
        with _one_start_at_a_time(), said.open("w") as out, every_processor():
            process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**_scrubbed(), **env},
                cwd=state.temp,
                start_new_session=True,
            )
            leader = process_id(process.pid)
            if leader is None:
                raise Unavailable("ray", f"it did not start: {_tail(said)}")
            node = LocalNode(Session(leader), dict(labels))
            self._write(evolve(state, nodes=(*state.nodes, node)))
            wrong = self._wrong(process, node)
        if wrong:
            end(node.session.members)
            process.wait()
            self._write(state)
            told = _tail(said)
            raise Unavailable("ray", f"{wrong}: {told}" if told else wrong)
        return node

    def _wrong(self, process: subprocess.Popen[bytes], node: LocalNode) -> str:
        """Wait for the end of what starts it; what went wrong, "" if nothing did. It would itself wait for long for a GCS that died."""
        seen: dict[ProcessId, str] = {}
        deadline = time.monotonic() + self._starts_within.seconds
        while time.monotonic() < deadline:
            try:
                return "it did not start" if process.wait(_POLL_S) else ""
            except subprocess.TimeoutExpired:
                seen.update((each, name) for name, each in _carriers(node).items() if each is not None)
            died = [name for each, name in seen.items() if not each.alive]
            if died:
                return f"its {' and '.join(died)} died while it was starting"
        return f"it did not start in {self._starts_within.seconds:g} s"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Among threads and processes."""
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._lock, open(self._home / "ray.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> _State | None:
        try:
            return load(self._file.read_text(), _State)
        except FileNotFoundError:
            return None

    def _write(self, state: _State) -> None:
        half = self._file.with_suffix(".new")
        half.write_text(dump(state))
        half.replace(self._file)


def _carriers(head: LocalNode) -> dict[str, ProcessId | None]:
    return {"GCS": head.gcs, "raylet": head.raylet}


@contextmanager
def _one_start_at_a_time() -> Iterator[None]:
    """Of all local Rays of this user: two raylets that start at the same moment may take each other's ports."""
    path = os.path.join(tempfile.gettempdir(), f"gridweave-start-{os.getuid()}.lock")
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _scrubbed() -> dict[str, str]:
    passed = {key: value for key, value in os.environ.items() if key in _PASSED_ON or key.startswith(_PREFIXES_PASSED_ON)}
    return passed | _RAY


def _tail(said: Path) -> str:
    return " ".join(said.read_text(errors="replace").split())[-500:]
