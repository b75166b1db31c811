"""A real Kubernetes control plane of the tests' own: etcd and kube-apiserver on free ports of this machine.

One per test run. Whoever needs it first starts it, in a folder that all workers of the run share; each user holds a
shared lock, and the last one to leave stops it. A namespace per test keeps tests apart.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from attrs import asdict, frozen
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

ROUNDS = 1800  # looks at a starting or ending program, a tenth of a second apart
TRIES = 3
MANIFESTS = Path(__file__).parents[2] / "k8s"
ISSUER = "https://kubernetes.default.svc"


@frozen
class Plane:
    """A running control plane. folder: of its state and logs. token: of an administrator."""

    assets: str
    folder: str
    etcd_port: int
    api_port: int
    token: str

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def authority(self) -> str:
        """File of the certificates by which the API server is known."""
        return f"{self.folder}/certs/apiserver.crt"

    def program(self, name: str) -> str:
        return f"{self.assets}/{name}"

    # ------------------------------------------------------------ what runs

    def start_etcd(self) -> None:
        _run(
            self,
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{self.etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self.etcd_port}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",
            "--log-level=error",
        )

    def start_api(self) -> None:
        """Returns when it answers."""
        _run(
            self,
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.api_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={self.folder}/certs",
            f"--service-account-key-file={self.folder}/sa.pub",
            f"--service-account-signing-key-file={self.folder}/sa.key",
            f"--service-account-issuer={ISSUER}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
        )
        for _ in range(ROUNDS):
            if self.ready():
                return
            if not (self.alive("kube-apiserver") and self.alive("etcd")):
                break
            time.sleep(0.1)
        raise RuntimeError(f"kube-apiserver did not start; its log ends:\n{self.log('kube-apiserver')}")

    def add_kinds(self) -> None:
        """Our own kinds, as `k8s/` defines them. Returns when they can be used."""
        files = [f"--filename={path}" for path in sorted(MANIFESTS.glob("*-crd.yaml"))]
        for command in (("apply", "--server-side"), ("wait", "--for=condition=Established", "--timeout=60s")):
            done = self.kubectl(*command, *files)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)

    def ready(self) -> bool:
        headers = {"Authorization": f"Bearer {self.token}"}
        try:
            trust = ssl.create_default_context(cafile=self.authority)
            return httpx.get(f"{self.url}/readyz", headers=headers, verify=trust, timeout=5, trust_env=False).status_code == 200
        except (OSError, httpx.TransportError):
            return False

    def log(self, name: str) -> str:
        return (Path(self.folder) / f"{name}.log").read_text(errors="replace")[-3000:]

    def pid(self, name: str) -> int | None:
        try:
            return int((Path(self.folder) / f"{name}.pid").read_text())
        except FileNotFoundError:
            return None

    def alive(self, name: str) -> bool:
        found = self.pid(name)
        return found is not None and _runs(found, name)

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End one of its programs, and return when it is gone. No error if it does not run."""
        found = self.pid(name)
        if found is None:
            return
        for turn in range(ROUNDS):
            if not _runs(found, name):
                break
            if turn in (0, 100):
                os.kill(found, how if turn == 0 else signal.SIGKILL)
            time.sleep(0.02)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found, os.WNOHANG)
        (Path(self.folder) / f"{name}.pid").unlink(missing_ok=True)

    def stop_all(self) -> None:
        for name in sorted((path.stem for path in Path(self.folder).glob("*.pid")), reverse=True):
            self.stop(name)

    # ------------------------------------------------------------ for its users

    def kubeconfig(self, token: str = "", namespace: str = "default", name: str = "admin") -> Path:
        """A file for kubectl and clients, for whoever has that token; the administrator without one."""
        path = Path(self.folder) / f"kubeconfig-{name}-{namespace}-{secrets.token_hex(4)}"
        context = {"cluster": "plane", "user": name, "namespace": namespace}
        form = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "plane", "cluster": {"server": self.url, "certificate-authority": self.authority}}],
            "users": [{"name": name, "user": {"token": token or self.token}}],
            "contexts": [{"name": "plane", "context": context}],
            "current-context": "plane",
        }
        path.write_text(json.dumps(form))
        return path

    def kubectl(self, *arguments: str, namespace: str = "", token: str = "", stdin: str = "") -> subprocess.CompletedProcess[str]:
        """What kubectl answers; whether it is well is for the caller to look at. namespace: "default" if empty."""
        shared = Path(self.folder) / "kubectl-cache"
        command = [
            self.program("kubectl"),
            f"--server={self.url}",
            f"--certificate-authority={self.authority}",
            f"--token={token or self.token}",
            *([f"--namespace={namespace}"] if namespace else []),
            f"--cache-dir={shared}",
            *arguments,
        ]
        environment = {**os.environ, "KUBECONFIG": "/dev/null"}
        return subprocess.run(command, input=stdin, text=True, capture_output=True, env=environment, timeout=120, check=False)


def _runs(pid: int, name: str) -> bool:
    """Whether that very program lives; a zombie does not. One that has just been started has no command line for a moment."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return state not in "ZX" and (not command or name.encode() in command)
    except OSError:
        return False


def _run(plane: Plane, name: str, *arguments: str) -> None:
    folder = Path(plane.folder)
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(
            [plane.program(name), *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (folder / f"{name}.pid").write_text(str(process.pid))
    process.returncode = 0  # it is ended by its pid, maybe by another process than this one: no warning about a child left


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _started(assets: Path, folder: Path) -> Plane:
    """Tried again on other ports: a free one may have been taken by the time that it is used."""
    for attempt in range(1, TRIES):
        with contextlib.suppress(RuntimeError):
            return _started_once(assets, folder / str(attempt))
    return _started_once(assets, folder / str(TRIES))


def _started_once(assets: Path, folder: Path) -> Plane:
    folder.mkdir(parents=True, exist_ok=True)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "sa.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / "sa.pub").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    plane = Plane(str(assets), str(folder), free_port(), free_port(), secrets.token_hex(16))
    with (folder / "tokens.csv").open("w", newline="") as out:
        csv.writer(out).writerow([plane.token, "admin", "admin", "system:masters"])
    try:
        plane.start_etcd()
        plane.start_api()
        plane.add_kinds()
    except BaseException:
        plane.stop_all()
        raise
    return plane


@contextlib.contextmanager
def private_plane(assets: Path, folder: Path) -> Iterator[Plane]:
    """One of a test's own, which it may stop, restart and make forget."""
    plane = _started(assets, folder)
    try:
        yield plane
    finally:
        plane.stop_all()


@contextlib.contextmanager
def shared_plane(assets: Path, folder: Path) -> Iterator[Plane]:
    """The one that this run uses, started by its first user and stopped by its last."""
    folder.mkdir(parents=True, exist_ok=True)
    users = os.open(folder / "users.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    note = folder / "plane.json"
    try:
        with _alone(folder):
            fcntl.flock(users, fcntl.LOCK_SH)
            if note.exists():
                plane = Plane(**json.loads(note.read_text()))
            else:
                plane = _started(assets, folder / secrets.token_hex(4))
                note.write_text(json.dumps(asdict(plane)))
        try:
            yield plane
        finally:
            with _alone(folder):
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    pass  # another worker still uses it, and will stop it
                else:
                    note.unlink()
                    plane.stop_all()
    finally:
        os.close(users)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "start.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
