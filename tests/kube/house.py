"""The whole house on Kubernetes: two gateways, two schedulers, a raylet, and a namespace of a real control plane.

Each process is known to the API server by a token of its own ServiceAccount, and may do what `k8s/rbac.yaml` grants to that.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from attrs import define, field, frozen

from adapters.local.clock import SystemClock
from adapters.ray.leftovers import end_runs
from adapters.ray.local import LocalRay
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from runtimes.failpoints import FAILPOINT, LOG
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN
from tests.e2e.gateways import ROOT, SOURCES, Gateway
from tests.e2e.platform import Platform
from tests.e2e.rig import BIG, NODES, PAID_SETTINGS, SETTINGS, Rig, until, with_uv
from tests.e2e.secrecy import canaries, check_left, check_standing
from tests.kube.plane import MANIFESTS, Plane
from tests.sinks import answers, objects


@define
class Scheduler:
    """`python -m runtimes.batch schedule` as a process of its own. settings: by variable."""

    state: Path
    name: str
    settings: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        env = {**os.environ, "PYTHONPATH": SOURCES, "STATE_DIR": str(self.state), **self.settings}
        with (self.state / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runtimes.batch", "schedule"],
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        """All that it wrote to stderr, in every life."""
        return (self.state / f"{self.name}.log").read_text(errors="replace")

    @property
    def paused(self) -> bool:
        """Whether SIGSTOP holds it."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def signal(self, which: signal.Signals) -> None:
        os.killpg(self.pid, which)

    def ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL to every process of it, as a machine's end would."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            self.signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM; gives its exit code. No error if it was killed."""
        assert self._process is not None
        if not self.ended():
            self.signal(signal.SIGCONT)
        self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()
            raise


@define
class Control:
    """`gridweave-control` as a process of its own; the same port in every life. settings: by variable."""

    state: Path
    settings: Mapping[str, str]
    port: int = 0
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it listens."""
        with (self.state / "control.log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runtimes.control", "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": SOURCES, "STATE_DIR": str(self.state), **self.settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        self._process.stdout.close()
        assert said, (self.state / "control.log").read_text()[-3000:]
        self.port = int(said.rpartition(":")[2])

    def kill(self) -> None:
        """With its worker, as a machine's end would."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def square(x: int) -> int:
    return x * x


def account(plane: Plane, namespace: str, name: str) -> Path:
    """A kubeconfig of that process's ServiceAccount."""
    made = plane.kubectl("create", "token", f"gridweave-{name}", "--duration=24h", namespace=namespace)
    assert made.returncode == 0, made.stderr
    return plane.kubeconfig(made.stdout.strip(), namespace, name)


@frozen
class KubeHouse:
    """rig: as of the embedded house; its gateway is the first of the two. schedulers: whichever holds the Lease schedules.
    kubeconfigs: by the name of each process."""

    plane: Plane
    namespace: str
    rig: Rig
    gateways: tuple[Gateway, ...]
    schedulers: tuple[Scheduler, ...]
    kubeconfigs: Mapping[str, str]

    def kubectl(self, *arguments: str) -> str:
        done = self.plane.kubectl(*arguments, namespace=self.namespace)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def bill(self, **settings: str) -> None:
        """A round of the biller, as the CronJob takes one."""
        done = self.biller(**settings)
        said = done.communicate(timeout=120)[1]
        assert done.returncode == 0, said

    def forget_the_lease(self) -> None:
        """Nobody waits for a Lease of the dead to expire."""
        self.kubectl("delete", "lease", "gridweave-scheduler", "--ignore-not-found")

    def biller(self, **settings: str) -> subprocess.Popen[str]:
        one = self.schedulers[0]
        mine = {"KUBECONFIG": self.kubeconfigs["biller"], **settings}
        common = {name: value for name, value in one.settings.items() if name not in (FAILPOINT, LOG)}
        env = {**os.environ, "PYTHONPATH": SOURCES, "STATE_DIR": str(one.state), **common, **mine}
        command = [sys.executable, "-m", "runtimes.batch", "bill"]
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def leader(self) -> Scheduler | None:
        """The scheduler whose identity the Lease names."""
        found = self.plane.kubectl(
            "get", "lease", "gridweave-scheduler", "-o", "jsonpath={.spec.holderIdentity}", namespace=self.namespace
        ).stdout
        return next((each for each in self.schedulers if f"-{each.pid}-" in found), None)

    def epoch(self) -> int:
        """The newest term; 0 if its record is gone."""
        return int(self.kubectl("get", "gwepoch", "scheduler", "--ignore-not-found", "-o", "jsonpath={.spec.newest}") or 0)

    def led_with(self, **settings: str) -> tuple[Scheduler, Scheduler]:
        """A scheduler with these settings beside the common ones leads, the other one waits. Gives both."""
        leader: Scheduler = until(self.leader, "somebody holds the Lease")
        other = next(each for each in self.schedulers if each is not leader)
        epoch = self.epoch()
        self.again(other, **settings)
        leader.stop()
        until(lambda: self.leader() is other and self.epoch() > epoch, "the other one leads")
        leader.start()
        return other, leader

    def again(self, one: Scheduler, **settings: str) -> None:
        """Another life of it, with these settings beside the common ones."""
        one.stop()
        common = {name: value for name, value in one.settings.items() if name not in (FAILPOINT, LOG)}
        one.settings = {**common, **settings}
        one.start()

    def sound(self) -> None:
        """Nothing is leaked, and the books prove themselves."""
        until(self.rig.idle, "every GPU free again, nothing quarantined")
        audited = self.rig.credits.verify()
        assert audited.sound, audited
        assert () == self.rig.credits.alarms()


@contextmanager
def kube_house(plane: Plane, namespace: str, home: Path) -> Iterator[KubeHouse]:
    """Nothing is left of it afterwards."""
    with_uv(home / "bin")
    applied = plane.kubectl("apply", "-f", str(MANIFESTS / "rbac.yaml"), namespace=namespace)
    assert applied.returncode == 0, applied.stderr
    configs = {name: str(account(plane, namespace, name)) for name in ("gateway", "scheduler", "biller", "control")}
    stores = {"STORE": "kubernetes", "SCHEDULER": "external", "KUBERAY_NAMESPACE": namespace, "LEASE_SECONDS": "4"}
    ray = LocalRay(home / "ray", NODES[BIG])
    gateway = Gateway(home / "state", {**SETTINGS, **PAID_SETTINGS, **stores, "KUBECONFIG": configs["gateway"]})
    gateways, schedulers = [gateway], list[Scheduler]()
    try:
        gateway.settings = {**gateway.settings, "RAY_HEAD_ADDRESS": ray.ensure()}
        gateway.start()
        gateways.append(Gateway(gateway.state, gateway.settings))
        gateways[1].start()
        settings = {**gateway.settings, "KUBECONFIG": configs["scheduler"], "GATEWAY_URL": gateways[1].url}  # the first one is killed most
        for name in ("first", "second"):
            schedulers.append(Scheduler(gateway.state, name, settings))
            schedulers[-1].start()
        for each in gateways:
            each.ready()
        with closing(Platform(gateway.port, PLATFORM_TOKEN)) as platform, closing(open_credits(gateway.state)) as money:
            rig = Rig(home, ray, gateway, platform, SqliteCredits(money, SystemClock()))
            until(lambda: rig.all_ready([BIG]), "the node ready")
            yield KubeHouse(plane, namespace, rig, tuple(gateways), tuple(schedulers), configs)
            known = canaries(gateway.state, [BIG], **tokens(plane, configs))
            with rig.witness():
                check_standing(gateway, known, home / "ray", answers(gateways[1].url, ADMIN_TOKEN), objects(plane, namespace))
            rig.forget_users()
            known.search(objects(plane, namespace)).check(
                "kubernetes/gridweavejobs/*/status", "kubernetes/events/*/*", "kubernetes/leases/*"
            )
    finally:
        for scheduler in schedulers:
            scheduler.stop()
        for each in gateways:
            each.stop()
        ray.stop()
        end_runs(gateway.state / "agents")
    check_left(home, known, platform.errors, "home/state/first.log", "home/state/second.log", "home/state/gateway.log")


def tokens(plane: Plane, configs: Mapping[str, str]) -> dict[str, str]:
    """Of everybody who is known to that API server."""
    held = {name: json.loads(Path(file).read_text())["users"][0]["user"]["token"] for name, file in configs.items()}
    return {f"the Kubernetes token of the {name}": token for name, token in {**held, "administrator": plane.token}.items()}
