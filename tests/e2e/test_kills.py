"""kill -9 of everything there is: what can live on lives on, what can't ends with the true reason and an exact bill.

On a cluster of its own: other tests would miss what is killed here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gridweave_agent.rundir import read_json

from tests.e2e import machine
from tests.e2e.closed_form import charged, cost
from tests.e2e.gateways import ROOT, SOURCES, Gateway
from tests.e2e.rig import ACME, NODES, SMALL, Rig, User, standing, until
from tests.e2e.walk import restarts

LOST_S = "3"  # of silence, until a node has lost what ran there


@pytest.fixture(scope="module")
def doomed_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with standing(tmp_path_factory.mktemp("kills")) as rig:
        yield rig


@pytest.fixture
def rig(doomed_rig: Rig) -> Iterator[Rig]:
    """As idle and whole as it was."""
    yield doomed_rig
    doomed_rig.forget_users()
    until(lambda: doomed_rig.all_ready(NODES), "three nodes ready")
    until(doomed_rig.idle, "every GPU free again")


def waits(flag: str, mark: str) -> str:
    """Runs until the flag is raised; tells each start."""
    import os
    import time

    with open(mark, "a") as marks:
        marks.write(os.environ["GRIDWEAVE_RUN"] + "\n")
    print("waiting", flush=True)
    while not os.path.exists(flag):
        time.sleep(0.01)
    print("done", flush=True)
    return "done"


def counts(lines: int, pause: float) -> int:
    import time

    for n in range(lines):
        print(n, flush=True)
        time.sleep(pause)
    return lines


class Waiting:
    """A job that runs until it is let go."""

    def __init__(self, user: User, folder: Path, node: str = SMALL, **ask: Any) -> None:
        self.flag, self.mark, self.node, self.user = folder / "flag", folder / "mark", node, user
        where = {"gpu": NODES[node]["gridweave.io/gpus"].partition("x")[2], "owner": "provider" if node == ACME else "org"}
        self.job = user.spawn(waits, str(self.flag), str(self.mark), **{"vram": "1GB", **where, **ask})
        user.running(self.job)
        until(self.mark.exists, "its function has begun")
        self.run = f"{self.job.id}/1"

    def let_go(self) -> None:
        self.flag.touch()

    def ends(self, phase: str, reason: str, gb: int = 1) -> dict[str, Any]:
        """Its status at the end: run once, billed exactly."""
        status = self.user.ended(self.job)
        assert (phase, reason) == (status["phase"], status["reason"]), status
        assert [self.run] == self.mark.read_text().split()
        assert cost(status, gb) == charged(status)
        assert "0.000000" == self.user.client.account()["held"]
        return status

    def lives_on(self) -> None:
        """It was not touched by what happened: let it go, and it returns."""
        self.let_go()
        self.ends("Completed", "Returned")
        assert "done" == self.job.result(timeout=60)
        assert b"waiting\ndone\n" == self.user.log(self.job)


def runs_there(user: User, waiting: Waiting) -> None:
    """New work runs on that node."""
    ask = {"gpu": NODES[waiting.node]["gridweave.io/gpus"].partition("x")[2], "owner": "provider" if waiting.node == ACME else "org"}
    assert 7 == user.spawn(lambda: 7, **ask).result(timeout=90)


def holder(rig: Rig) -> int:
    """The pid of the process that schedules; 0 if there is none at the moment."""
    text = (rig.gateway.state / "scheduler.lock").read_text()
    return int(json.loads(text)["pid"]) if text else 0


# ---------------------------------------------------------------- one process


def test_a_killed_gateway_ends_nothing(rig: Rig, tmp_path: Path) -> None:
    """It only looks on."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    rig.gateway.kill()
    waiting.let_go()
    rig.gateway.start()
    rig.gateway.ready()
    waiting.lives_on()


def test_a_killed_worker_of_the_gateway_is_replaced(rig: Rig, tmp_path: Path) -> None:
    """The server's own parent process starts another, which schedules after it."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    before = holder(rig)
    os.kill(before, signal.SIGKILL)
    until(lambda: holder(rig) not in (0, before), "another process schedules")
    waiting.lives_on()


def test_a_killed_agent_ends_nothing(rig: Rig, tmp_path: Path) -> None:
    """Its runs are watched over by their supervisors; Ray brings it back, and it adopts them."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    os.kill(before := machine.agent(rig, SMALL), signal.SIGKILL)
    until(lambda: machine.agent(rig, SMALL) != before, "another agent")
    waiting.lives_on()
    runs_there(user, waiting)


def test_a_killed_zygote_ends_nothing(rig: Rig, tmp_path: Path) -> None:
    """What it has forked does not need it, and the next run gets another one."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    os.kill(machine.zygote(rig, SMALL), signal.SIGKILL)
    runs_there(user, waiting)
    waiting.lives_on()


def test_a_killed_supervisor_takes_its_run_along(rig: Rig, tmp_path: Path) -> None:
    """Nobody could say any more what the run does; it is billed to the last proof of life."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    process = machine.users(rig, SMALL, waiting.run)
    os.kill(machine.supervisor(rig, SMALL, waiting.run), signal.SIGKILL)
    waiting.ends("Failed", "RunnerLost")
    assert 0 == machine.parent(process)
    runs_there(user, waiting)


def test_a_killed_function_is_told_apart_from_one_that_failed(rig: Rig, tmp_path: Path) -> None:
    """`Signalled`, with the signal's name."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    os.kill(machine.users(rig, SMALL, waiting.run), signal.SIGKILL)
    status = waiting.ends("Failed", "Signalled")
    assert "SIGKILL" == status["exit"]["signal"]


# ---------------------------------------------------------------- a node


@pytest.fixture
def impatient(rig: Rig) -> Iterator[Rig]:
    """A gateway that soon gives up a node that can't be asked."""
    with restarts(rig):
        rig.gateway.kill()
        rig.gateway.settings = {**rig.gateway.settings, "NODE_LOST_SECONDS": LOST_S}
        rig.gateway.start()
        rig.gateway.ready()
        until(lambda: holder(rig) and rig.all_ready(NODES), "it has heard of all nodes")
        yield rig


def quarantined(rig: Rig, node: str) -> int:
    """MiB, as users see it; the metrics say the same."""
    seen = sum(int(gpu["quarantined_mib"]) for gpu in rig.resources()[node]["gpus"])
    lines = httpx.get(f"{rig.gateway.url}/metrics", timeout=30).text.splitlines()
    mine = [line for line in lines if line.startswith("gridweave_gpu_vram_quarantined_bytes") and f'node="{node}"' in line]
    told = sum(int(float(line.rpartition(" ")[2])) for line in mine) // 2**20
    return seen if seen == told else -1  # the two were read at two moments


def test_a_lost_node_keeps_its_vram_until_it_is_back_and_swept(impatient: Rig, tmp_path: Path) -> None:
    """What ran there may still use it, and nobody can look."""
    rig = impatient
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    process = machine.users(rig, SMALL, waiting.run)
    with machine.without_raylet(rig, SMALL):
        until(lambda: rig.resources()[SMALL]["state"] == "Unreachable", "the node can't be asked")
        waiting.ends("Failed", "RunnerLost")
        until(lambda: quarantined(rig, SMALL) == 1024, "its GB is kept from everybody")
        assert 0 != machine.parent(process)
        assert not any(gpu["usable"] for gpu in rig.resources()[SMALL]["gpus"])
    until(lambda: quarantined(rig, SMALL) == 0, "the quarantine ends")
    assert 0 == machine.parent(process)
    runs_there(user, waiting)


def reconciled(rig: Rig, seconds: int) -> None:
    """One round of cron beside a gateway that only serves."""
    env = {**os.environ, **rig.gateway.settings, "STATE_DIR": str(rig.gateway.state), "PYTHONPATH": SOURCES}
    command = [sys.executable, "-m", "runtimes.batch", "reconcile", "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert 0 == done.returncode, done.stderr


def test_rounds_of_cron_give_up_a_lost_node(rig: Rig, tmp_path: Path) -> None:
    """Nobody is awake between them; each adds what it has seen to what is stored."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    with restarts(rig):
        rig.gateway.kill()
        rig.gateway.settings = {**rig.gateway.settings, "SCHEDULER": "external", "NODE_LOST_SECONDS": "20"}
        rig.gateway.start()
        rig.gateway.answers()
        with machine.without_raylet(rig, SMALL):
            rounds = 0
            while "Running" == waiting.job.status()["phase"] and rounds < 6:
                reconciled(rig, 14)
                rounds += 1
            assert rounds > 1
            reconciled(rig, 4)  # what is left to be settled
            waiting.ends("Failed", "RunnerLost")
            assert 1024 == quarantined(rig, SMALL)


def test_a_machine_that_an_admin_says_is_gone_keeps_nothing(impatient: Rig, tmp_path: Path) -> None:
    """Only a person can know that it was sold."""
    rig = impatient
    user = rig.user()
    waiting = Waiting(user, tmp_path, node=ACME)

    def declare(gone: bool) -> None:
        said = httpx.put(f"{rig.gateway.url}/v1/admin/nodes", json={"name": ACME, "gone": gone}, headers=rig.admin, timeout=30)
        assert 200 == said.status_code, said.text

    with machine.without_raylet(rig, ACME):
        waiting.ends("Failed", "RunnerLost")
        until(lambda: quarantined(rig, ACME) == 1024, "its GB is kept from everybody")
        declare(True)
        until(lambda: rig.resources()[ACME]["state"] == "Gone" and quarantined(rig, ACME) == 0, "nothing is kept any more")
        waiting.let_go()
        declare(False)
    until(lambda: rig.all_ready(NODES), "it is back, against all odds")
    runs_there(user, waiting)


# ---------------------------------------------------------------- Ray's head


def test_a_head_that_hangs_hangs_nothing_of_ours(rig: Rig, tmp_path: Path) -> None:
    """Ray carries agents to nodes; whatever else it does, we do without."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    head = [each.pid for name in ("gcs_server", "raylet") for each in rig.ray.nodes[0].session.members(name)]
    for pid in head:
        os.kill(pid, signal.SIGSTOP)
    try:
        said = [httpx.get(f"{rig.gateway.url}{path}", timeout=10).status_code for path in ("/healthz", "/metrics")]
        assert [200, 200] == said
        assert "Running" == waiting.job.status()["phase"]
        jobs = [user.spawn(lambda: 5, owner="org") for _ in range(4)]
        time.sleep(8)  # longer than the driver is given to answer
        assert [200, 200] == [httpx.get(f"{rig.gateway.url}{path}", timeout=10).status_code for path in ("/healthz", "/metrics")]
        jobs += [user.spawn(lambda: 5, owner="org") for _ in range(4)]
    finally:
        for pid in head:
            os.kill(pid, signal.SIGCONT)
    assert [5] * 8 == [job.result(timeout=90) for job in jobs]
    waiting.lives_on()


def test_a_killed_head_takes_nothing_along(rig: Rig, tmp_path: Path) -> None:
    """Runs outlive all of Ray, and are found by the agents of the next one."""
    user = rig.user()
    waiting = Waiting(user, tmp_path)
    gcs = rig.ray.nodes[0].gcs
    assert gcs is not None
    os.kill(gcs.pid, signal.SIGKILL)
    assert 5 == user.spawn(lambda: 5, owner="org").result(timeout=90)
    rig.gateway.kill()
    rig.ray.stop()
    address = rig.ray.ensure()
    for name in (SMALL, ACME):
        rig.ray.add_node(NODES[name])
    # A whole Ray has to start its agents first, which on a busy machine takes longer than a silent node is waited for.
    rig.gateway.settings = {**rig.gateway.settings, "RAY_HEAD_ADDRESS": address, "NODE_LOST_SECONDS": "600"}
    rig.gateway.start()
    rig.gateway.ready()
    until(lambda: rig.all_ready(NODES), "three nodes ready")
    assert waiting.job.status()["phase"] == "Running"
    waiting.lives_on()


# ---------------------------------------------------------------- two gateways


@contextmanager
def second(rig: Rig) -> Iterator[Gateway]:
    """Another gateway on the same database, which serves, and waits for its turn to schedule."""
    other = Gateway(rig.gateway.state, rig.gateway.settings)
    other.start()
    try:
        other.ready()
        yield other
    finally:
        other.stop()


def test_the_other_gateway_takes_over(rig: Rig, tmp_path: Path) -> None:
    """One schedules, both serve, and either may die."""
    user = rig.user()
    before = holder(rig)
    with second(rig) as other:
        assert before == holder(rig)
        rig.platform.gateway = other.port
        try:
            waiting = Waiting(user, tmp_path)
            rig.gateway.kill()
            assert 5 == user.spawn(lambda: 5).result(timeout=90)
            assert holder(rig) not in (0, before)
            waiting.lives_on()
        finally:
            rig.platform.gateway = rig.gateway.port
            rig.gateway.start()
            rig.gateway.answers()
    until(lambda: holder(rig) not in (0, before), "the first one has taken over again")


def test_inputs_are_fetched_from_whoever_takes_over(rig: Rig, tmp_path: Path) -> None:
    """What serves a run's inputs may die with the term that granted them, while the run is still set up."""
    user = rig.user()
    with restarts(rig):
        settings = rig.gateway.settings
        rig.gateway.kill()
        rig.gateway.settings = {**settings, "GATEWAY_URL": "http://127.0.0.1:1"}  # an address at which soon nobody is any more
        rig.gateway.start()
        rig.gateway.ready()
        until(lambda: holder(rig) and rig.all_ready(NODES), "it has heard of all nodes")
        flag, mark = tmp_path / "flag", tmp_path / "mark"
        job = user.spawn(waits, str(flag), str(mark), gpu="L4-24GB", owner="org")
        run = f"{job.id}/1"
        until(lambda: read_json(machine.run_folder(rig, SMALL, run).prepare), "the agent fetches")
        assert "Allocated" == job.status()["phase"]
        rig.gateway.kill()
        rig.gateway.settings = settings
        rig.gateway.start()
        flag.touch()
        assert "done" == job.result(timeout=60)
        assert [run] == mark.read_text().split()


def test_a_second_scheduler_exits_and_names_the_first(rig: Rig) -> None:
    """An operator must not guess whom to stop."""
    env = {**os.environ, **rig.gateway.settings, "STATE_DIR": str(rig.gateway.state), "PYTHONPATH": SOURCES}
    command = [sys.executable, "-m", "runtimes.batch", "schedule"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert 3 == done.returncode, done.stderr
    assert f"process {holder(rig)} " in done.stderr


def test_a_follower_goes_on_at_another_gateway(rig: Rig) -> None:
    """SIGTERM is an upgrade, and nobody who reads along should notice."""
    user = rig.user()
    job = user.spawn(counts, 300, 0.02)
    heard: list[bytes] = []

    def follow() -> None:
        heard.extend(job.log_bytes(follow=True))

    with second(rig) as other:
        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        until(lambda: len(b"".join(heard)) > 100, "it reads along")
        rig.platform.gateway = other.port
        try:
            assert 0 == rig.gateway.stop()
            follower.join(120)
            assert not follower.is_alive()
        finally:
            rig.gateway.start()
            rig.gateway.answers()
            rig.platform.gateway = rig.gateway.port
    assert b"".join(b"%d\n" % n for n in range(300)) == b"".join(heard)
    assert 300 == job.result(timeout=60)
