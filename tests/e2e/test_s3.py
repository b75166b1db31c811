"""The whole on a bucket: everything that a job needs and leaves lies in S3, and a store that is away loses nothing.

On a cluster and an S3 of its own, since the store is stopped here and runs are killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from gridweave.jobs import Job

from tests.canaries import ADMIN_TOKEN, PLATFORM_TOKEN, Canaries
from tests.e2e.closed_form import charged, cost
from tests.e2e.gateways import ROOT, SOURCES
from tests.e2e.machine import children, without_raylet
from tests.e2e.rig import BIG, NODES, SMALL, Rig, User, standing, until
from tests.s3.pods import pod_identity_agent
from tests.s3.seaweed import BUCKET, SECRET_KEY, Seaweed, running
from tests.sinks import bucket

KIB = 1024
FLEET = {name: NODES[name] for name in (BIG, SMALL)}
CANARY = "canary-7d1f-of-a-user"


@frozen
class House:
    """The rig, the S3 beside it, and a client of an operator who looks into the bucket."""

    rig: Rig
    seaweed: Seaweed
    bucket: Any

    def read(self, key: str) -> bytes:
        data: bytes = self.bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return data

    def keys(self, prefix: str) -> list[str]:
        return [each["Key"] for each in self.bucket.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])]

    def log(self, job: str, attempt: int = 1) -> bytes:
        return b"".join(self.read(key) for key in self.keys(f"jobs/{job}/{attempt}/logs/0/"))

    @contextmanager
    def with_settings(self, **changed: str) -> Iterator[None]:
        """The gateway restarted with those, and as it was afterwards."""
        before = self.rig.gateway.settings
        try:
            self._restart({**before, **changed})
            yield
        finally:
            self._restart(before)

    def _restart(self, settings: Mapping[str, str]) -> None:
        self.rig.gateway.kill()
        self.rig.gateway.settings = settings
        self.rig.gateway.start()
        self.rig.gateway.ready()
        until(lambda: self.rig.all_ready(FLEET), "it has heard of both nodes")

    @contextmanager
    def without_store(self) -> Iterator[None]:
        """S3 is away, and comes back with all that it had."""
        self.seaweed.stop()
        try:
            yield
        finally:
            self.seaweed.start()

    def manifest(self, job: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read(f"jobs/{job}/manifest.json"))
        return found


@pytest.fixture(scope="module")
def standing_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Its gateway has no key in any setting: it is a pod, whose agent gives it some."""
    home = tmp_path_factory.mktemp("seaweed")
    with running(home) as seaweed, closing(seaweed.connection()) as connection, pod_identity_agent(home) as pod:
        own = {**seaweed.environment, "S3_ACCESS_KEY": "", "S3_SECRET_KEY": "", **pod}
        settings = {**own, "LOG_CHUNK_BYTES": str(4 * KIB), "LOG_CHUNK_AGE_SECONDS": "1", "GRANT_LIFE_SECONDS": "6"}
        with standing(tmp_path_factory.mktemp("s3"), FLEET, **settings) as rig:
            yield House(rig, seaweed, connection.client)
        searched = Canaries().search(bucket(connection.client, BUCKET))
        searched.check(
            "s3/jobs/*/manifest.json", "s3/jobs/*/1/diagnostics.json", "s3/jobs/*/1/traceback.txt", "s3/jobs/*/1/result!metadata"
        )


@pytest.fixture
def house(standing_house: House) -> Iterator[House]:
    yield standing_house
    standing_house.rig.forget_users()
    until(lambda: standing_house.rig.all_ready(FLEET), "both nodes ready")
    until(standing_house.rig.idle, "every GPU free again")


def test_function_arguments_result_and_log_lie_in_the_bucket(house: House) -> None:
    """Nothing of a job is left on a disk that dies with its machine."""

    def turned(data: bytes) -> bytes:
        print("turning " + "x" * 100)
        return data[::-1]

    data, user = os.urandom(300 * KIB), house.rig.user()
    job = user.spawn(turned, data)
    assert data[::-1] == job.result(timeout=120)
    user.ended(job)
    kept = [key.removeprefix(f"jobs/{job.id}/") for key in house.keys(f"jobs/{job.id}/")]
    outputs = [key for key in kept if not key.startswith("inputs-")]
    assert ["1/logs/0/000000000", "1/result", "manifest.json"] == outputs
    assert ["args", "function"] == sorted(key.rpartition(".")[2] for key in kept if key not in outputs)
    assert b"turning " + b"x" * 100 + b"\n" == house.log(job.id) == user.log(job)
    manifest = house.manifest(job.id)
    assert ("Completed", "Returned", 1, "Returned") == (
        manifest["phase"],
        manifest["reason"],
        manifest["attempt"],
        manifest["exit"]["kind"],
    )
    result = house.read(f"jobs/{job.id}/1/result")
    assert (len(result), hashlib.sha256(result).hexdigest()) == (manifest["result"]["size"], manifest["result"]["sha256"])
    assert not list((house.rig.gateway.state / "blobs").rglob("*"))


def waits(folder: str) -> bytes:
    """Runs until it may go on; tells that it has begun."""
    import os
    import time

    open(f"{folder}/begun", "w").close()
    print("waiting", flush=True)
    while not os.path.exists(f"{folder}/go on"):
        time.sleep(0.01)
    print("done", flush=True)
    return b"x" * 100_000


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    """A folder where a run and its test meet."""
    tmp_path.chmod(0o777)
    return tmp_path


def begun(user: User, meeting: Path, **ask: Any) -> Job:
    job = user.spawn(waits, str(meeting), **ask)
    user.running(job)
    until((meeting / "begun").exists, "its function has begun")
    return job


def pending(job: Job) -> dict[str, Any]:
    """Its status, once it says that its result waits for the store."""
    found: dict[str, Any] = until(lambda: said if (said := job.status())["reason"] == "ResultPending" else None, "ResultPending")
    return found


def test_while_s3_is_away_a_result_waits_on_its_node_and_costs_nothing(house: House, meeting: Path) -> None:
    """An outage of the store must neither hold a GPU, nor be billed, nor lose what was computed."""
    user = house.rig.user()
    job = begun(user, meeting)
    with house.without_store():
        (meeting / "go on").touch()
        said = pending(job)
        assert ("Closing", "ResultPending") == (said["phase"], said["reason"])
        assert "waits on its node" in said["message"]
        until(house.rig.idle, "its VRAM is free")
        assert said["ran_ms"] == job.status()["ran_ms"]
        assert 202 == user.direct.get(f"/v1/jobs/{job.id}/result").status_code
        assert 200 == user.direct.get("/healthz").status_code
    assert b"x" * 100_000 == job.result(timeout=120)
    status = user.ended(job)
    assert ("Completed", "Returned", said["ran_ms"]) == (status["phase"], status["reason"], status["ran_ms"])
    assert cost(status, 1) == charged(status)
    assert b"waiting\ndone\n" == user.log(job) == house.log(job.id)


def test_a_result_that_can_never_be_stored_fails_its_job_after_the_time_that_is_set(house: House, meeting: Path) -> None:
    """A job that never ends is worse than one that says what was lost."""
    user = house.rig.user()
    with house.with_settings(RESULT_PENDING_SECONDS="3"):
        job = begun(user, meeting)
        with house.without_store():
            (meeting / "go on").touch()
            status = user.ended(job)
        assert ("Failed", "ResultPending") == (status["phase"], status["reason"]), status
        assert "given up" in status["message"]
        assert cost(status, 1) == charged(status)
        assert "0.000000" == user.client.account()["held"]


def test_what_a_killed_node_leaves_is_read_from_the_bucket_alone(house: House, meeting: Path) -> None:
    """After every process is gone: its log up to the last chunk, what became of it, and where to look."""

    def talks(folder: str) -> None:
        import time

        for n in range(100_000):
            print(f"{n:08d} {'x' * 100}", flush=True)
            time.sleep(0.005 if n < 200 else 0.1)

    user = house.rig.user()
    with house.with_settings(NODE_LOST_SECONDS="3"):
        job = user.spawn(talks, str(meeting), gpu="L4-24GB")
        user.running(job)
        until(lambda: len(house.keys(f"jobs/{job.id}/1/logs/0/")) >= 3, "chunks are stored while it runs")
        with without_raylet(house.rig, SMALL, FLEET):
            status = user.ended(job)
            assert ("Failed", "RunnerLost") == (status["phase"], status["reason"])
            assert 0 == house.rig.gateway.stop()
            log, manifest = house.log(job.id), house.manifest(job.id)
            told = json.loads(house.read(f"jobs/{job.id}/1/diagnostics.json"))
            sizes = [len(house.read(key)) for key in house.keys(f"jobs/{job.id}/1/logs/0/")]
            house.rig.gateway.start()
            house.rig.gateway.ready()
    assert "".join(f"{n:08d} {'x' * 100}\n" for n in range(len(log))).encode().startswith(log)
    assert 4 * KIB in sizes
    assert ("Failed", "RunnerLost", 1, "RunnerLost") == (
        manifest["phase"],
        manifest["reason"],
        manifest["attempt"],
        manifest["exit"]["kind"],
    )
    assert (1, "RunnerLost", SMALL) == (told["schema"], told["runs"][0]["exit"]["kind"], told["nodes"][0]["name"])


def test_a_run_that_outlives_its_grants_stores_its_end(house: House) -> None:
    """Trainings take days, and a permission an hour: it is renewed while the run lasts."""

    def works(seconds: float) -> str:
        import time

        time.sleep(seconds)
        print("the end")
        return "trained"

    user = house.rig.user()
    job = user.spawn(works, 8.0)
    assert "trained" == job.result(timeout=120)
    user.ended(job)
    assert b"the end\n" == house.log(job.id)


def test_a_log_is_followed_over_the_seam_of_stored_chunks_and_live_tail(house: House) -> None:
    """The gateway is killed in the middle, and the run's node forgets it at the end: every line once, in order."""

    def counts(lines: int) -> None:
        import time

        for n in range(lines):
            print(f"{n:06d} {'x' * 50}", flush=True)
            time.sleep(0.005)

    user, heard = house.rig.user(), bytearray()
    job = user.spawn(counts, 1_000)

    def follow() -> None:
        for piece in job.log_bytes(follow=True):
            heard.extend(piece)

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    until(lambda: len(heard) > 10 * KIB, "it reads along")
    house.rig.gateway.kill()
    house.rig.gateway.start()
    house.rig.gateway.ready()
    follower.join(120)
    assert not follower.is_alive()
    expected = "".join(f"{n:06d} {'x' * 50}\n" for n in range(1_000)).encode()
    assert expected == bytes(heard)
    user.ended(job)
    assert expected == house.log(job.id) == user.log(job)
    for offset in (0, 1, 4 * KIB - 1, 4 * KIB, 4 * KIB + 1, 20_000):
        piece = user.direct.get(f"/v1/jobs/{job.id}/logs", params={"offset": offset, "limit": 9 * KIB})
        assert expected[offset : offset + 9 * KIB] == piece.content


def test_no_secret_is_in_any_sink(house: House, tmp_path: Path) -> None:
    """Objects, manifests, logs of ours, errors, metrics and the debug bundle: what could open the bucket is in none of them."""

    def fails(secret: str) -> None:
        import os

        assert os.environ["MY_SECRET"]
        raise RuntimeError("it failed")

    rig, user = house.rig, house.rig.user()
    job = user.spawn(fails, f"{CANARY}-argument", env={"env_vars": {"MY_SECRET": f"{CANARY}-variable"}})
    user.ended(job)
    env = {**os.environ, **rig.gateway.settings, "STATE_DIR": str(rig.gateway.state), "PYTHONPATH": SOURCES}
    bundle = tmp_path / "bundle.zip"
    command = [sys.executable, "-m", "runtimes.http.gateway", "--debug-bundle", str(bundle)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True, timeout=120)
    with zipfile.ZipFile(bundle) as opened:
        sinks = {f"bundle/{name}": opened.read(name) for name in opened.namelist()}
    sinks |= {f"s3/{key}": house.read(key) for key in house.keys("") if not key.endswith((".function", ".args")) and "uploads/" not in key}
    sinks |= {"gateway.log": rig.gateway.log.encode(), "bundle's output": done.stdout + done.stderr}
    for path in ("/metrics", "/v1/resources", f"/v1/jobs/{job.id}/status", f"/v1/jobs/{job.id}/logs", "/v1/jobs"):
        sinks[path] = user.direct.get(path).content
    tokens = [ADMIN_TOKEN, PLATFORM_TOKEN, (rig.gateway.state / "secret").read_text()]
    secrets = [SECRET_KEY, f"{CANARY}-argument", f"{CANARY}-variable", *tokens, "X-Amz-Signature", "x-amz-signature"]
    assert [] == [(name, secret) for name, data in sinks.items() for secret in secrets if secret.encode() in data]
    assert {f"s3/jobs/{job.id}/{name}" for name in ("manifest.json", "1/diagnostics.json", "1/traceback.txt", "1/result")} <= sinks.keys()


FETCH = """
import hashlib, json, sys
import gridweave as gw

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024

with gw.Client(sys.argv[1], sys.argv[2]) as client:
    client.account()
    open("/proc/self/clear_refs", "w").write("5")
    before, told = peak(), []
    download = client.result(sys.argv[3], 60, lambda so_far, total: told.append((so_far, total)))
    digest = hashlib.sha256()
    for piece in download.chunks():
        digest.update(piece)
    download.close()
    some = told[:: max(1, len(told) // 50)] + told[-1:]
    print(json.dumps({"sha256": digest.hexdigest(), "grown": peak() - before, "size": download.size, "progress": some}))
"""
MIB = 1024 * KIB


@contextmanager
def cutting(port: int, after: int) -> Iterator[tuple[int, list[int]]]:
    """A relay to that port which ends the first connection that has brought so many bytes; and how many each has brought."""
    listener = socket.create_server(("127.0.0.1", 0))
    brought: list[int] = []
    threads: list[threading.Thread] = []
    cut = threading.Event()

    def onward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", port)) as far:
            asking = threading.Thread(target=onward, args=(near, far), daemon=True)
            asking.start()
            at = len(brought)
            brought.append(0)
            with suppress(OSError):
                while data := far.recv(65536):
                    brought[at] += len(data)
                    if brought[at] > after and not cut.is_set():
                        cut.set()
                        break
                    near.sendall(data)
            for each in (near, far):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            asking.join()

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                threads.append(threading.Thread(target=serve, args=(near,), daemon=True))
                threads[-1].start()

    acceptor = threading.Thread(target=accept, daemon=True)
    acceptor.start()
    try:
        yield listener.getsockname()[1], brought
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in (acceptor, *threads):
            each.join(30)


def peaks(pids: list[int], forget: bool = False) -> int:
    """The most memory that these processes had at once each, in bytes; forget: count anew from now on."""
    total = 0
    for pid in pids:
        if forget:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        status = Path(f"/proc/{pid}/status").read_text()
        total += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * KIB
    return total


@pytest.mark.parametrize("size", [96 * MIB, pytest.param(2048 * MIB, marks=pytest.mark.slow)])
def test_a_large_result_passes_in_constant_memory_and_is_taken_up_where_its_connection_broke(house: House, size: int) -> None:
    """Weights of a model are gigabytes, and a gateway is a small pod. The bound is of the size, and the same 64 MiB for any."""

    def weights(size: int) -> bytes:
        return bytes(range(256)) * (size // 256)

    rig, user = house.rig, house.rig.user()
    with house.with_settings(GRANT_LIFE_SECONDS="3600") if size > 512 * MIB else nullcontext():
        job = user.spawn(weights, size)
        user.ended(job)
    gateway = [rig.gateway.pid, *children(rig.gateway.pid)]
    before = peaks(gateway, forget=True)
    with cutting(rig.platform.port, size // 2) as (port, brought):
        env = {**os.environ, "PYTHONPATH": SOURCES}
        command = [sys.executable, "-c", FETCH, f"http://127.0.0.1:{port}", user.key, job.id]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=280)
    assert 0 == done.returncode, done.stderr[-3000:]
    told, stored = json.loads(done.stdout), house.manifest(job.id)["result"]
    assert (stored["sha256"], stored["size"]) == (told["sha256"], told["size"])
    assert size < stored["size"] < size + 1000
    assert [stored["size"]] * 2 == told["progress"][-1]
    assert told["progress"] == sorted(told["progress"])
    assert len([each for each in brought if each > MIB]) == 2, "it was broken once, and then taken up"
    assert sum(brought) < size * 1.2, "nothing came twice but what was on the way"
    assert told["grown"] < 64 * MIB
    assert peaks(gateway) - before < 64 * MIB
