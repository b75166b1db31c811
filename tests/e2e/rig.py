"""The whole, real: three raylets, a gateway process, the platform in front of it, and users with the real SDK.

Started once for all tests of this folder. Every test brings users of its own, so that none sees another's jobs.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gridweave as gw
import httpx
from attrs import define, field, frozen
from gridweave.calls import spawn
from gridweave.jobs import Job

from adapters.local.clock import SystemClock
from adapters.ray.labels import GPUS, NODE, OWNER
from adapters.ray.leftovers import end_runs
from adapters.ray.local import LocalRay
from adapters.ray.venv import uv_binary
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from ports.credits import ISSUE, user_account
from ports.units import Credits
from tests import sinks
from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN, RUN_SECRET, RUN_VARIABLE
from tests.e2e.gateways import Gateway
from tests.e2e.platform import Platform
from tests.e2e.rebilled import disagreements
from tests.e2e.secrecy import canaries, check_left, check_standing

BIG, SMALL, ACME = "org-big", "org-small", "acme-small"
NODES = {
    BIG: {NODE: BIG, OWNER: "org", GPUS: "2xA100-80GB"},
    SMALL: {NODE: SMALL, OWNER: "org", GPUS: "2xL4-24GB"},
    ACME: {NODE: ACME, OWNER: "provider.acme", GPUS: "2xL4-24GB"},
}
ENDED = frozenset({"Completed", "Failed", "Cancelled"})
LOOKS = 1200  # at a job or a fleet, a twentieth of a second apart, before a test gives up
_SERIAL = itertools.count(1)

SETTINGS = {
    "GATEWAY_HOST": "127.0.0.1",
    "PLATFORM_TOKEN": PLATFORM_TOKEN,
    "ADMIN_TOKEN": ADMIN_TOKEN,
    "SETUP_BOUND_SECONDS": "10",
}
PAID_SETTINGS = {"CREDITS_ENABLED": "true", "BILLING_TICK_SECONDS": "1", "PREFLIGHT_HOURS": "0.0001", "VRAM_RATE": "1"}


def until(seen: Callable[[], Any], what: str) -> Any:
    """The first true thing that `seen` gives. Looks a bounded number of times."""
    for _ in range(LOOKS):
        if found := seen():
            return found
        time.sleep(0.05)
    raise AssertionError(f"it never came about: {what}")


def spawned_by(client: gw.Client, function: Callable[..., Any], *args: Any, **options: Any) -> Job:
    """Submit a function as if it stood in a script. options: of `gw.function`."""
    function.__module__ = "__main__"
    env = options.get("env") or {}
    variables = {RUN_VARIABLE: RUN_SECRET, **env.get("env_vars", {})}
    return spawn(client, gw.function(**{"vram": "1GB", **options, "env": {**env, "env_vars": variables}})(function), args, {})


def end_all(client: gw.Client) -> None:
    """Cancel what a failed test left."""
    for job in client.jobs(phases="Pending,Allocated,Running"):
        client.cancel(job["id"])


@frozen
class User:
    """Somebody with an API key of the platform. direct: to the gateway, with his identity headers. client: the SDK's."""

    id: str
    plan: str
    role: str
    direct: httpx.Client
    client: gw.Client

    @property
    def key(self) -> str:
        return sinks.key(self.id, self.plan, self.role)

    def spawn(self, function: Callable[..., Any], *args: Any, **options: Any) -> Job:
        return spawned_by(self.client, function, *args, **options)

    def hold(self, **options: Any) -> Job:
        """A running job that keeps its GPUs until it is cancelled."""

        def wait_for_ever() -> None:
            import time

            time.sleep(86_400)

        job = self.spawn(wait_for_ever, **options)
        self.running(job)
        return job

    def release(self, *jobs: Job) -> None:
        """Cancel them, and wait until they hold nothing."""
        for job in jobs:
            job.cancel()
        for job in jobs:
            self.ended(job)

    def ended(self, job: Job) -> dict[str, Any]:
        """Its status, once it has ended."""
        return self.in_phase(job, ENDED)

    def in_phase(self, job: Job, phases: Collection[str]) -> dict[str, Any]:
        """Its status, once it is in one of these phases, or has ended."""
        status: dict[str, Any] = until(
            lambda: said if (said := job.status())["phase"] in ENDED | set(phases) else None, f"{job} in {sorted(phases)}"
        )
        return status

    def running(self, job: Job) -> dict[str, Any]:
        """Its status, once it runs."""
        status = self.in_phase(job, {"Running"})
        assert status["phase"] == "Running", status
        return status

    def balance(self) -> Credits:
        return Credits.parse(self.client.account()["balance"])

    def log(self, job: Job) -> bytes:
        """All that it has written so far."""
        return b"".join(job.log_bytes())


@define
class Rig:
    """paid: with credits. credits: the service that keeps the balances, as an operator has it."""

    home: Path
    ray: LocalRay
    gateway: Gateway
    platform: Platform
    credits: SqliteCredits
    _users: list[User] = field(factory=list, init=False)

    def user(self, name: str = "user", plan: str = "paid", role: str = "user", credits: str | None = "1000") -> User:
        """A new one. name: whole if the role is provider, else the beginning of his id. credits: what he has at first."""
        user_id = name if role == "provider" else f"{name}-{next(_SERIAL)}"
        headers = {"X-User-Id": user_id, "X-User-Plan": plan, "X-User-Role": role, "X-Platform-Token": PLATFORM_TOKEN}
        direct = httpx.Client(base_url=self.gateway.url, headers=headers, timeout=60, trust_env=False)
        user = User(user_id, plan, role, direct, gw.Client(self.platform.url, sinks.key(user_id, plan, role)))
        self._users.append(user)
        if credits is not None:
            self.grant(user, credits)
        return user

    def grant(self, user: User, amount: str) -> None:
        given = Credits.parse(amount)
        self.credits.post(f"grant-{next(_SERIAL)}", "grant", {user_account(user.id): given, ISSUE: -given}, "Credits of a test")

    def forget_users(self) -> None:
        """End what they left running, as a failed test would. Raises AssertionError if a bill of theirs is not what it comes to."""
        wrong: list[str] = []
        for user in self._users:
            end_all(user.client)
            if self.gateway.settings.get("CREDITS_ENABLED") == "true":
                wrong += disagreements(user.client, user.id)
            user.direct.close()
            user.client.close()
        self._users.clear()
        assert not wrong, wrong

    @contextmanager
    def witness(self) -> Iterator[None]:
        """While a run is on a node, and after one has failed: both have a secret in their environment."""
        user = self.user("witness")
        user.ended(user.spawn(lambda: 1 / 0))
        held = user.hold()
        yield
        user.release(held)

    @property
    def admin(self) -> dict[str, str]:
        """Headers of an operator."""
        return {"Authorization": f"Bearer {ADMIN_TOKEN}"}

    def resources(self) -> dict[str, dict[str, Any]]:
        said = httpx.get(f"{self.gateway.url}/v1/resources", headers=self.admin, timeout=30).json()
        return {node["name"]: node for node in said["nodes"]}

    def idle(self) -> bool:
        """Whether nothing is booked or quarantined anywhere."""
        gpus = [gpu for node in self.resources().values() for gpu in node["gpus"]]
        return all(gpu["free_mib"] == gpu["total_mib"] for gpu in gpus)

    def all_ready(self, wanted: Collection[str] = tuple(NODES)) -> bool:
        """Whether the fleet is these nodes, each of them ready."""
        nodes = self.resources()
        return set(wanted) == set(nodes) and all(node["state"] == "Ready" for node in nodes.values())


def with_uv(folder: Path) -> None:
    """Nodes have uv, as the image of a node does, and nothing else of ours."""
    folder.mkdir()
    (folder / "uv").symlink_to(uv_binary())
    os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"


LEFT = ("home/state/gateway.log", "home/state/log.jsonl", "home/state/gridweave.db", "home/state/credits.db", "home/state/agents/*")


@contextmanager
def standing(home: Path, nodes: Mapping[str, Mapping[str, str]] = NODES, **settings: str) -> Iterator[Rig]:
    """The rig, and nothing left of it afterwards. nodes: labels of each raylet, the head first. settings: of its gateway,
    beside the common ones."""
    with_uv(home / "bin")
    head, *others = nodes.values()
    ray = LocalRay(home / "ray", head)
    gateway = Gateway(home / "state", {**SETTINGS, **PAID_SETTINGS, **settings})
    platform = None
    try:
        address = ray.ensure()
        for labels in others:
            ray.add_node(labels)
        gateway.settings = {**gateway.settings, "RAY_HEAD_ADDRESS": address}
        gateway.start()
        money = open_credits(gateway.state)
        platform = Platform(gateway.port, PLATFORM_TOKEN)
        rig = Rig(home, ray, gateway, platform, SqliteCredits(money, SystemClock()))
        gateway.ready()
        until(lambda: rig.all_ready(nodes), "every node ready")
        yield rig
        known = canaries(gateway.state, nodes)
        with rig.witness():
            check_standing(gateway, known, home / "ray")
        rig.forget_users()
        money.close()
    finally:
        if platform is not None:
            platform.close()
        gateway.stop()
        ray.stop()
        end_runs(gateway.state / "agents")
    check_left(home, known, platform.errors, *LEFT)
