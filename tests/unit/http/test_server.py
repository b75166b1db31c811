"""The gateway as a real process under gunicorn, without a scheduler: sockets, signals, start and end."""

from __future__ import annotations

import hashlib
import os
import pty
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import gridweave as gw
import httpx
import pytest

from adapters.sqlite.database import Database, Schema, version_of
from adapters.sqlite.schema import GRIDWEAVE, open_gridweave, prepare_gridweave
from runtimes.presence import Presence
from tests.unit.http.conftest import body

ROOT = Path(__file__).parents[3]
ALICE = {"X-User-Id": "alice"}
ENVIRONMENT = {
    "ADMIN_TOKEN": "admin-token-0123456789",
    "SCHEDULER": "external",
    "SHUTDOWN_GRACE_SECONDS": "10",
    "UPLOAD_SILENCE_SECONDS": "1",
}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "runtimes.http.gateway", *arguments]


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "GRIDWEAVE_TEST_RUN")}
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "sdk", "agent"))  # also where nothing of ours is installed
    return kept | ENVIRONMENT | {"STATE_DIR": str(folder), "PYTHONPATH": paths} | more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of `served`."""
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process and its URL. The last test of this module ends it; so does this fixture."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command("--port", "0"), cwd=ROOT, env=environment(folder), stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert "listens on http://127.0.0.1:" in said, (folder / "log").read_text()
            yield process, said.split()[-1]
        finally:
            process.terminate()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()


def raw(url: str, request: bytes) -> bytes:
    """Bytes as they are, past every client's tidiness; the answer until the server closes."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(request)
        answer = b""
        while block := connection.recv(65536):
            answer += block
        return answer


def test_a_source_tree_says_the_version_that_its_client_has(served: tuple[subprocess.Popen[str], str], folder: Path) -> None:
    """0.0.0 beside 0.1.0 looks like a server that is too old. Both are of this tree, installed or not."""
    url = served[1]
    said = [httpx.get(f"{url}{path}", trust_env=False, timeout=30).json() for path in ("/version", "/healthz", "/openapi.json")]
    assert [gw.__version__] * 3 == [said[0]["server"], said[1]["version"], said[2]["info"]["version"]]
    shown = subprocess.run(command("--version"), cwd=ROOT, env=environment(folder), capture_output=True, text=True, check=True).stdout
    assert f"{gw.__version__}\n" == shown


def test_underscores_are_no_dashes(served: tuple[subprocess.Popen[str], str]) -> None:
    """`X_User_Id` would pass a proxy that strips `X-User-Id`, and must not be taken for it."""
    answer = raw(served[1], b"GET /v1/account HTTP/1.1\r\nHost: localhost\r\nX_User_Id: mallory\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    "headers",
    [
        b"X-User-Id: alice\r\nX-User-Id: mallory",
        b"X-User-Id: alice\r\nx-user-id: alice",
        b"X-User-Id:",
        b"X-User-Id: a\x01b",
        b"X-User-Id: a,b",
    ],
)
def test_malformed_identity_is_refused_on_the_wire(served: tuple[subprocess.Popen[str], str], headers: bytes) -> None:
    """What the server in front of the application makes of headers is part of the answer."""
    answer = raw(served[1], b"GET /v1/account HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    "target", [b"/v1/jobs/../status", b"/v1/jobs/%2e%2e/status", b"/v1/jobs/a%00/status", b"/v1/jobs/\xf0\x9f\x98\x80/status"]
)
def test_job_ids_are_judged_as_they_came(served: tuple[subprocess.Popen[str], str], target: bytes) -> None:
    """No server in between may have tidied them."""
    answer = raw(served[1], b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nX-User-Id: alice\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")


def test_a_chunked_body_without_end_is_cut_off(served: tuple[subprocess.Popen[str], str]) -> None:
    """413 before it is read to its end."""
    url = served[1]

    def endless() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * 65536

    answer = httpx.post(f"{url}/v1/jobs/submit", headers=ALICE | {"Content-Type": "application/json"}, content=endless(), trust_env=False)
    assert (413, "/problems/too-large") == (answer.status_code, answer.json()["type"])


def test_an_upload_that_stops_in_the_middle_is_told_so_and_cut_off(served: tuple[subprocess.Popen[str], str], folder: Path) -> None:
    """The server in front of the application has bounds of its own, under which it would say that the client went away."""
    data = b"x" * 1_000_000
    wanted = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    path = httpx.post(f"{served[1]}/v1/uploads", headers=ALICE, json=wanted, trust_env=False).json()["url"]
    head = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    answer = raw(served[1], head + data[: len(data) // 2])
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in answer.lower()
    assert b"after 500000 bytes" in answer
    assert [] == [file for file in (folder / "blobs").rglob("*") if file.is_file()]


def test_who_announces_a_body_and_sends_none_of_it_is_checked_first_and_bounded_too(served: tuple[subprocess.Popen[str], str]) -> None:
    """Else anybody could hold a connection, and would be told of a fault of ours in the end."""
    head = "PUT {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 400000\r\n\r\n"
    assert raw(served[1], head.format("/v1/blobs/jobs/x").encode()).startswith(b"HTTP/1.1 403")
    wanted = {"sha256": hashlib.sha256(b"").hexdigest(), "size": 400_000}
    path = httpx.post(f"{served[1]}/v1/uploads", headers=ALICE, json=wanted, trust_env=False).json()["url"]
    answer = raw(served[1], head.format(path).encode())
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"after 0 bytes" in answer


def test_wrong_settings_end_the_start_with_all_of_them(tmp_path: Path) -> None:
    """Exit code 2, and no stack."""
    done = subprocess.run(
        command(), cwd=ROOT, env=environment(tmp_path, GATEWAY_PORT="x", STORE="y"), capture_output=True, text=True, check=False
    )
    assert (2, "") == (done.returncode, done.stdout)
    assert "GATEWAY_PORT is 'x'" in done.stderr
    assert "STORE is 'y'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("wrong", ["a setting", "a failpoint", "the address", "the folder"])
def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path, served: tuple[subprocess.Popen[str], str], wrong: str) -> None:
    """Whoever mistypes in the wrong folder must not find it littered."""
    file = tmp_path / "file"
    file.touch()
    said = {"a setting": {"STORE": "y"}, "a failpoint": {"GRIDWEAVE_FAILPOINT": "nonsense"}}.get(wrong, {})
    said["GATEWAY_PORT"] = served[1].rpartition(":")[2] if wrong == "the address" else "0"
    env = environment((file if wrong == "the folder" else tmp_path) / ".gridweave", **said)
    done = subprocess.run(command(), cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (3 if wrong == "the address" else 2) == done.returncode
    assert "Traceback" not in done.stderr
    assert [file] == list(tmp_path.iterdir())


def test_a_taken_port_is_told(tmp_path: Path, served: tuple[subprocess.Popen[str], str]) -> None:
    """The commonest failure of all."""
    port = served[1].rpartition(":")[2]
    done = subprocess.run(command("--port", port), cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert 3 == done.returncode
    assert "--port 0" in done.stderr


def test_settings_are_printed_without_secrets(tmp_path: Path) -> None:
    """`--print-settings` serves nothing and shows everything else."""
    done = subprocess.run(
        command("--print-settings", "--json"), cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode
    assert '"SHUTDOWN_GRACE_SECONDS"' in done.stdout
    assert ENVIRONMENT["ADMIN_TOKEN"] not in done.stdout


def test_settings_are_printed_without_an_admin_token(tmp_path: Path) -> None:
    """The README's first command: it shows what is missing instead of only that something is."""
    said = environment(tmp_path)
    del said["ADMIN_TOKEN"]
    done = subprocess.run(command("--print-settings"), cwd=ROOT, env=said, capture_output=True, text=True, check=False)
    assert 0 == done.returncode
    assert "ADMIN_TOKEN is not set" in done.stderr
    assert any(line.startswith("STATE_DIR ") and str(tmp_path) in line and "Folder of" in line for line in done.stdout.splitlines())


def test_a_fleet_other_than_the_one_that_is_served_is_refused(folder: Path, served: tuple[subprocess.Popen[str], str]) -> None:
    """Silently ignored, it would show the fleet of somebody else's terminal."""
    assert served[0].poll() is None
    done = subprocess.run(
        command("--demo-fleet", "1x1xL4-24GB:org", "--port", "0"),
        cwd=ROOT,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (2, "") == (done.returncode, done.stdout)
    for part in ("--demo-fleet", "1x1xL4-24GB:org", "no demo", "STATE_DIR"):
        assert part in done.stderr


def test_a_state_of_a_newer_release_is_refused_before_anything_listens(tmp_path: Path) -> None:
    """In one sentence, and not by a worker that dies again and again."""
    open_gridweave(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "gridweave.db")) as db:
        db.execute("UPDATE schema_version SET version = 99")
        db.commit()
    done = subprocess.run(command("--port", "0"), cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (4, "") == (done.returncode, done.stdout)
    assert "was written by a newer release: its schema is 99" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_newer_release_changes_no_files_below_a_gateway_that_runs(tmp_path: Path) -> None:
    """The older one would hold the scheduler's lock and could do nothing with it."""
    older = Schema(GRIDWEAVE.purpose, GRIDWEAVE.steps[:1])
    Database(tmp_path / "gridweave.db", older).close()
    there = Presence(tmp_path)
    done = subprocess.run(command("--port", "0"), cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert (4, "") == (done.returncode, done.stdout)
    assert "Stop all gateways on it first" in done.stderr
    Database(tmp_path / "gridweave.db", older).close()
    there.leave()
    prepare_gridweave(tmp_path, Presence(tmp_path).alone)
    assert len(GRIDWEAVE.steps) == version_of(tmp_path / "gridweave.db")


def test_a_terminal_is_told_what_serves_and_that_it_drains(tmp_path: Path) -> None:
    """From the start to the prompt that comes back."""
    here, there = pty.openpty()
    process = subprocess.Popen(command("--port", "0"), cwd=ROOT, env=environment(tmp_path), stdout=there, stderr=subprocess.DEVNULL)
    os.close(there)
    seen, asked = b"", False
    try:
        while piece := os.read(here, 65536):
            seen += piece
            if b"waiting for a scheduler" in seen and not asked:
                url = seen.decode().partition("listens on ")[2].split()[0]
                httpx.get(f"{url}/healthz", trust_env=False, timeout=30)  # a worker serves: it is the one that stops
                process.send_signal(signal.SIGTERM)
                asked = True
    except OSError:  # nobody holds the other side any more
        pass
    finally:
        os.close(here)
        if not asked:
            process.terminate()
        process.wait(30)
    assert 0 == process.returncode
    assert "store: sqlite, blobs: folder, Ray: the scheduler's, credits: off" in seen.decode()
    assert 1 == seen.decode().count("stopping: no new work is taken; open requests have up to 10 s")


def test_sigterm_ends_streams_and_the_process(served: tuple[subprocess.Popen[str], str]) -> None:
    """Streams end cleanly, so clients resume elsewhere; nothing is killed after the grace period."""
    process, url = served
    with httpx.Client(base_url=url, headers=ALICE, trust_env=False, timeout=30) as client:
        job = client.post("/v1/jobs/submit", json=body()).json()["id"]
        with client.stream("GET", f"/v1/jobs/{job}/logs", params={"follow": "true"}) as stream:
            lines = stream.iter_lines()
            assert "event: state" == next(lines)
            process.send_signal(signal.SIGTERM)
            assert [] == [line for line in lines if line.startswith("event: end")]
    assert 0 == process.wait(30)
