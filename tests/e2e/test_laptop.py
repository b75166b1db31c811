"""What a user has beside his function works as it does on his laptop: a script of his is run once, and looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.gateways import SOURCES
from tests.e2e.rig import Rig, User

PROJECT = Path(__file__).with_name("project")
ODD = {
    "PLAIN": b"x=1",
    "EMPTY": b"",
    "ODD": " \t\"'$HOME %PATH% \\n\\ é 漢字 🙂\r\n\x0b\u2028 end ".encode(),
    "BYTES": b"\xff\xfe raw",
}


def environment(rig: Rig, user: User, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCES, "GRIDWEAVE_URL": rig.platform.url, "GRIDWEAVE_API_KEY": user.key, **more}


def command(rig: Rig, user: User, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line, in the project's folder."""
    line = [sys.executable, "-m", "gridweave", *arguments]
    return subprocess.run(line, cwd=PROJECT, env=environment(rig, user), capture_output=True, text=True, check=False, timeout=240)


@pytest.fixture(scope="module")
def found(standing_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script found, by what it tried."""
    user, path = standing_rig.user(), tmp_path_factory.mktemp("found") / "found.json"
    done = subprocess.run(
        [sys.executable, "analysis.py"],
        cwd=PROJECT,
        env=environment(standing_rig, user, FOUND=str(path)),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert 0 == done.returncode, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        ("modules", 36.0),
        ("late", 42),
        ("map", [9.0 * radius * radius for radius in range(20)]),
        ("dataclass", [True, True, True]),
        ("raises", [True, "at 1", True]),
        ("async", 2),
        ("async at once", [1, 2, 3]),
        ("generator", [0, 1, 2]),
        ("fork", [2, 4, 6]),
        ("spawn", [2, 4, 6]),
        ("forkserver", [2, 4, 6]),
        ("programs", [3, "child in\n", "ONE\n"]),
        ("threads", [0, 2, 4, 6]),
        ("environment", {name: list(value) for name, value in ODD.items()}),
        ("files", ["kept while it runs", True, "__main__", 1]),
        ("signals", [["alarm"], [], 0, True]),
        ("working_dir", "3.0\n"),
    ],
)
def test_a_script_does_on_the_cluster_what_it_does_on_a_laptop(found: dict[str, Any], tried: str, expected: Any) -> None:
    """Each difference is an afternoon of somebody's."""
    assert expected == found[tried]


def test_any_bytes_in_a_log_arrive_as_they_were_written(rig: Rig) -> None:
    """Progress bars, binary dumps and separators of other systems must not be cut, joined or replaced."""
    pieces = [
        b"caf\xc3\xa9\n",
        b"\xff\xfe\x00raw\n",
        b"50%\r100%\r\n",
        "\x0b\x0c\x1c\x1d\x85\u2028\u2029".encode(),
        b"\n\n\nno newline at the end",
    ]

    def writes(pieces: list[bytes]) -> None:
        import os
        import sys

        for number, piece in enumerate(pieces):
            stream = sys.stdout.buffer if number % 2 else sys.stderr.buffer
            stream.write(piece)
            stream.flush()
        os.write(1, b"\xe6\xbc")
        os.write(1, b"\xa2")

    user = rig.user()
    job = user.spawn(writes, pieces)
    followed = b"".join(job.log_bytes(follow=True))
    expected = b"".join(pieces) + "漢".encode()
    assert expected == followed
    assert expected == user.log(job)


def test_a_progress_bar_of_tqdm_moves_on_its_line(rig: Rig) -> None:
    """The bar is how people see that training goes on."""

    def bar() -> str:
        import importlib

        for _ in importlib.import_module("tqdm").tqdm(range(3), desc="epochs", mininterval=0):
            pass
        return "done"

    user = rig.user()
    job = user.spawn(bar, env={"pip": ["tqdm"]})
    assert "done" == job.result(timeout=120)
    log = user.log(job)
    assert log.count(b"\r") >= 3
    assert b"epochs: 100%" in log


def test_submit_of_the_command_line_runs_a_function_of_a_file_with_its_modules(rig: Rig) -> None:
    """Not everybody writes a script around it."""
    user = rig.user()
    done = command(rig, user, "submit", "helpers.py:scaled", "2.0", "--vram", "8GB")
    assert (0, "36.0\n") == (done.returncode, done.stdout), done.stderr
    assert "credits" in done.stderr
    failed = command(rig, user, "submit", "analysis.py:counts", "two", "--json")
    assert 1 == failed.returncode
    assert "TypeError" == json.loads(failed.stdout)["error"]["kind"]


def test_the_command_line_follows_a_job_from_submit_to_bill(rig: Rig) -> None:
    """A script in a shell needs no Python."""
    user = rig.user()
    job = json.loads(command(rig, user, "submit", "analysis.py:counts", "3", "--detach", "--json").stdout)["id"]
    assert ["at 0", "at 1", "at 2"] == command(rig, user, "logs", "-f", job).stdout.splitlines()
    assert "[0, 1, 2]" == command(rig, user, "result", job).stdout.strip()
    status = json.loads(command(rig, user, "status", job, "--json").stdout)
    listed = json.loads(command(rig, user, "ps", "--all", "--json").stdout)["jobs"]
    assert [("Completed", status["charged"])] == [(each["phase"], each["charged"]) for each in listed]
    bill = command(rig, user, "bill")
    assert job in bill.stdout
    fleet = json.loads(command(rig, user, "gpus", "--json").stdout)
    assert {"org-big", "org-small", "acme-small"} == {node["name"] for node in fleet["nodes"]}
    assert 0 == command(rig, user, "cancel", job).returncode
    assert 0 != command(rig, user, "status", "job-22222222222222222222").returncode
