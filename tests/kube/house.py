"""The whole house on Kubernetes: a gateway, two schedulers, a raylet, and a namespace of a real control plane."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from attrs import define, field, frozen

from adapters.local.clock import SystemClock
from adapters.ray.leftovers import end_runs
from adapters.ray.local import LocalRay
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from tests.e2e.gateways import ROOT, SOURCES, Gateway
from tests.e2e.platform import Platform
from tests.e2e.rig import BIG, NODES, PAID_SETTINGS, PLATFORM_TOKEN, SETTINGS, Rig, until, with_uv
from tests.kube.plane import Plane


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

    def signal(self, which: signal.Signals) -> None:
        os.killpg(self.pid, which)

    def stop(self) -> int:
        """SIGTERM; gives its exit code. No error if it was killed."""
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()
            raise


@frozen
class KubeHouse:
    """rig: as of the embedded house. schedulers: whichever holds the Lease schedules."""

    plane: Plane
    namespace: str
    rig: Rig
    schedulers: tuple[Scheduler, ...]

    def kubectl(self, *arguments: str) -> str:
        done = self.plane.kubectl(*arguments, namespace=self.namespace)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def bill(self) -> None:
        """A round of the biller, as the CronJob takes one."""
        one = self.schedulers[0]
        env = {**os.environ, "PYTHONPATH": SOURCES, "STATE_DIR": str(one.state), **one.settings}
        command = [sys.executable, "-m", "runtimes.batch", "bill"]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr

    def leader(self) -> Scheduler | None:
        """The scheduler whose identity the Lease names."""
        found = self.plane.kubectl(
            "get", "lease", "gridweave-scheduler", "-o", "jsonpath={.spec.holderIdentity}", namespace=self.namespace
        ).stdout
        return next((each for each in self.schedulers if f"-{each.pid}-" in found), None)


@contextmanager
def kube_house(plane: Plane, namespace: str, home: Path) -> Iterator[KubeHouse]:
    """Nothing is left of it afterwards."""
    with_uv(home / "bin")
    stores = {"STORE": "kubernetes", "SCHEDULER": "external", "KUBERAY_NAMESPACE": namespace, "KUBECONFIG": str(plane.kubeconfig())}
    ray = LocalRay(home / "ray", NODES[BIG])
    gateway = Gateway(home / "state", {**SETTINGS, **PAID_SETTINGS, **stores})
    schedulers: list[Scheduler] = []
    try:
        gateway.settings = {**gateway.settings, "RAY_HEAD_ADDRESS": ray.ensure()}
        gateway.start()
        for name in ("first", "second"):
            schedulers.append(Scheduler(gateway.state, name, {**gateway.settings, "GATEWAY_URL": gateway.url}))
            schedulers[-1].start()
        gateway.ready()
        with closing(Platform(gateway.port, PLATFORM_TOKEN)) as platform, closing(open_credits(gateway.state)) as money:
            rig = Rig(home, ray, gateway, platform, SqliteCredits(money, SystemClock()))
            until(lambda: rig.all_ready([BIG]), "the node ready")
            yield KubeHouse(plane, namespace, rig, tuple(schedulers))
            rig.forget_users()
    finally:
        for each in schedulers:
            each.stop()
        gateway.stop()
        ray.stop()
        end_runs(gateway.state / "agents")
