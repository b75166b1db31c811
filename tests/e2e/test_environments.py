"""Packages that a function needs: built once per node, within a bound, at nobody's expense."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gridweave as gw
import pytest

from tests.e2e.rig import SMALL, Rig

ON_ONE_NODE = {"owner": "org", "gpu": "L4-24GB", "vram": "1GB"}


@pytest.fixture
def silent_server() -> Iterator[int]:
    """A port where somebody listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def built(rig: Rig, requirement: str) -> list[Path]:
    """Environments with that requirement on the small node."""
    marks = (rig.gateway.state / "agents" / SMALL).rglob("gridweave.json")
    return [mark.parent for mark in marks if requirement in json.loads(mark.read_text()).get("requirements", [])]


def where() -> str:
    import importlib

    humanize = importlib.import_module("humanize")
    return f"{humanize.__file__} {humanize.naturalsize(3_000_000)}"


def test_a_package_of_the_registry_is_there_and_is_installed_once(rig: Rig) -> None:
    """Whoever runs a thousand jobs pays for one installation in time."""
    user, env = rig.user(), {"pip": ["humanize==4.12.3"]}
    first = user.spawn(where, env=env, **ON_ONE_NODE)
    path, _, size = first.result(timeout=120).partition(" ")
    assert "3.0 MB" == size
    again = user.spawn(where, env=env, **ON_ONE_NODE).result(timeout=120)
    assert f"{path} {size}" == again
    assert 1 == len(built(rig, "humanize==4.12.3"))


def test_eight_jobs_at_once_that_need_the_same_new_one_install_it_once(rig: Rig) -> None:
    """A map starts them all in the same second."""
    user, env = rig.user(), {"pip": ["six==1.16.0"]}

    def six_is_at() -> str:
        import importlib

        six = importlib.import_module("six")
        return f"{six.__version__} {six.__file__}"

    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda _: user.spawn(six_is_at, env=env, **ON_ONE_NODE), range(8)))
    found = {job.result(timeout=120) for job in jobs}
    assert 1 == len(found)
    assert found.pop().startswith("1.16.0 ")
    assert 1 == len(built(rig, "six==1.16.0"))


def test_the_node_has_no_package_that_nobody_asked_for(rig: Rig) -> None:
    """What works by accident fails on the next node."""
    user = rig.user()
    with pytest.raises(ModuleNotFoundError) as caught:
        user.spawn(where, **ON_ONE_NODE).result(timeout=60)
    assert any('env={"pip": ["humanize"]}' in note for note in caught.value.__notes__)


def test_a_package_that_does_not_exist_fails_with_the_installers_last_lines(rig: Rig) -> None:
    """It is a typing mistake nearly always."""
    user = rig.user()
    job = user.spawn(lambda: None, env={"pip": ["no-such-package-of-gridweave==9.9"]})
    with pytest.raises(gw.JobFailed) as caught:
        job.result(timeout=120)
    assert ("SetupFailed", "SetupFailed") == (caught.value.kind, caught.value.reason)
    assert "no-such-package-of-gridweave" in str(caught.value)
    status = user.ended(job)
    assert "no-such-package-of-gridweave was not found" in " ".join(status["exit"]["message"].split())
    assert (0, "0.000000") == (status["ran_ms"], status["charged"])


def test_an_installer_that_hangs_is_ended_at_its_bound_and_nothing_is_billed(rig: Rig, silent_server: int) -> None:
    """A dead package index must not keep GPUs booked."""
    user = rig.user()
    job = user.spawn(lambda: None, env={"pip": [f"never @ http://127.0.0.1:{silent_server}/never-1.0-py3-none-any.whl"]})
    status = user.ended(job)
    assert ("Failed", "SetupFailed") == (status["phase"], status["reason"])
    assert "longer than set-up may" in status["exit"]["message"]
    assert (0, "0.000000") == (status["ran_ms"], status["charged"])
    mine = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if _mentions(pid, f"127.0.0.1:{silent_server}")]
    assert [] == mine


def _mentions(pid: str, text: str) -> bool:
    try:
        return text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_set_up_is_not_billed(rig: Rig) -> None:
    """The user waits for it already."""
    user = rig.user()

    def cube() -> str:
        import importlib

        return importlib.import_module("iniconfig").__name__

    job = user.spawn(cube, env={"pip": ["iniconfig==2.0.0"]})
    assert "iniconfig" == job.result(timeout=120)
    status = user.ended(job)
    entries = [each for each in user.client.usage()["entries"] if each["kind"] == "charge"]
    assert status["ran_ms"] == entries[-1]["ran_ms"]
    created, started = status["created_at"], status["started_at"]
    assert created < started <= status["finished_at"]
