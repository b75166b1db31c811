"""Requirements of a run become a virtual environment on its node, by the site's own uv."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from gridweave_agent.installer import find_uv

from tests.unit.agent.conftest import script

if TYPE_CHECKING:
    from tests.unit.agent.conftest import Node


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with one small package, so that no registry is needed."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "gw_probe-1.5-py3-none-any.whl", "w") as wheel:
        wheel.writestr("gw_probe.py", "version = '1.5'")
        wheel.writestr("gw_probe-1.5.dist-info/METADATA", "Metadata-Version: 2.1\nName: gw-probe\nVersion: 1.5\n")
        wheel.writestr("gw_probe-1.5.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("gw_probe-1.5.dist-info/RECORD", "")
    return folder


@pytest.fixture
def installing(make_node: Any, tmp_path: Path, wheels: Path) -> Any:
    """Makes a node whose uv writes down each call, and then does what `script` says instead of, or before, the real one."""

    def make(script: str = "", **config: object) -> tuple[Node, Path]:
        calls = tmp_path / "calls"
        uv = tmp_path / "uv"
        real = find_uv(None)
        uv.write_text(
            f'#!/bin/sh\necho "$@" >> {calls}\n{script}\n'
            f'case "$1" in venv) exec {real} "$@";; *) exec {real} "$@" --offline --no-index --find-links {wheels};; esac\n'
        )
        uv.chmod(0o755)
        return make_node(uv=str(uv), **config), calls

    return make


def test_the_function_and_its_children_see_the_packages(installing: Any) -> None:
    """A script that it starts, or multiprocessing's spawn, must find them too."""
    node, _ = installing()

    source = (
        "import os, subprocess, sys\n"
        "def work():\n"
        "    import cloudpickle, gw_probe\n"
        "    def run(*command): return subprocess.run(command, capture_output=True, text=True, check=True)\n"
        "    child = run('python', '-c', 'import gw_probe; print(gw_probe.version)')\n"
        "    own = run(sys.executable, '-c', 'import gw_probe, cloudpickle')\n"
        "    return gw_probe.version, child.stdout.strip(), own.stderr, os.environ['VIRTUAL_ENV'] == sys.prefix\n"
    )
    assert ("1.5", "1.5", "", True) == node.value(script(source)["work"], env={"pip": ["gw-probe"]})


def test_eight_at_once_install_it_once_and_later_ones_not_at_all(installing: Any) -> None:
    """Seconds and a registry's patience are not to be spent eight times."""
    node, calls = installing()
    commands = [node.prepared(lambda: 1, env={"pip": ["gw-probe==1.5"]}, slots=[{"gpu": 0, "mib": 1024}]) for _ in range(8)]
    assert all(answer["ok"] for answer in node.client.commands(1, commands))
    for command in commands:
        report = node.until(command["run"], lambda report: report["state"] in ("ready", "gone"))
        assert report["state"] == "ready", report
    assert node.run(lambda: 1, env={"uv": ["gw-probe==1.5"]})["exit"]["kind"] == "Returned"
    node.restart()
    assert node.run(lambda: 1, env={"pip": ["gw-probe==1.5"]})["exit"]["kind"] == "Returned"
    assert ["venv", "pip"] == [line.split()[0] for line in calls.read_text().splitlines()]


def test_a_failure_brings_the_installers_own_last_lines(installing: Any) -> None:
    """The user can mend a name that he can read."""
    node, _ = installing()
    command = node.prepared(lambda: 1, env={"pip": ["no-such-package-anywhere"]})
    node.client.commands(1, [command])
    report = node.gone(command["run"])
    assert (report["exit"]["kind"], report["started"]) == ("SetupFailed", False)
    assert "no-such-package-anywhere was not found" in report["exit"]["message"]


def test_a_failure_is_not_remembered(installing: Any, tmp_path: Path) -> None:
    """A registry that was down is up again."""
    flag = tmp_path / "up"
    node, _ = installing(f"test -e {flag} || exit 9")
    first = node.prepared(lambda: 1, env={"pip": ["gw-probe"]})
    node.client.commands(1, [first])
    assert "ended with 9" in node.gone(first["run"])["exit"]["message"]
    flag.touch()
    assert node.run(lambda: 1, env={"pip": ["gw-probe"]})["exit"]["kind"] == "Returned"


HANG = 'echo "still looking"; sleep 1000 & echo $! > {pid}; wait'


def alive(path: Path) -> bool:
    return os.path.exists(f"/proc/{path.read_text().strip()}")


def test_an_installer_that_hangs_ends_at_the_bound_with_its_children(installing: Any, tmp_path: Path) -> None:
    """A GPU is held meanwhile."""
    pid = tmp_path / "pid"
    node, _ = installing(HANG.format(pid=pid))
    command = node.prepared(lambda: 1, env={"pip": ["gw-probe"]}, setup_bound_ms=1500)
    node.client.commands(1, [command])
    assert node.until(command["run"], lambda report: report["detail"])["detail"] == "Installing gw-probe (uv)…"
    message = node.gone(command["run"])["exit"]["message"]
    assert "took longer than set-up may" in message
    assert "still looking" in message
    while alive(pid):
        os.sched_yield()


def test_a_kill_of_the_last_that_waits_ends_the_installer(installing: Any, tmp_path: Path) -> None:
    """Of the last only: the others still want it."""
    pid = tmp_path / "pid"
    node, _ = installing(HANG.format(pid=pid))
    commands = [node.prepared(lambda: 1, env={"pip": ["gw-probe"]}) for _ in range(2)]
    node.client.commands(1, commands)
    while not (pid.exists() and pid.read_text().strip()):
        os.sched_yield()
    node.ask("kill", commands[0]["run"])
    assert node.gone(commands[0]["run"])["exit"]["kind"] == "NeverRan"
    assert alive(pid)
    node.ask("kill", commands[1]["run"])
    node.gone(commands[1]["run"])
    while alive(pid):
        os.sched_yield()


def test_what_was_used_longest_ago_goes_when_there_are_too_many(installing: Any) -> None:
    """A node's disk is bounded; what a run uses stays."""
    node, _ = installing(env_count=1)
    for pin in ("gw-probe", "gw-probe>=1", "gw-probe<2"):
        assert node.run(lambda: 1, env={"pip": [pin]})["exit"]["kind"] == "Returned"
    assert len(list((node.folder / "node/envs").glob("*.*"))) == 1


def test_options_that_read_the_nodes_files_are_refused(installing: Any) -> None:
    """The installer runs as the agent: `-r /path` would print what it finds."""
    node, calls = installing()
    for text in ("-r /etc/passwd", "--requirement=/etc/passwd", "-e /", "a\n-r /etc/passwd", "file:///etc/passwd"):
        command = node.prepared(lambda: 1, env={"pip": [text]})
        node.client.commands(1, [command])
        assert "is no requirement that is installed here" in node.gone(command["run"])["exit"]["message"]
    assert not calls.exists()
