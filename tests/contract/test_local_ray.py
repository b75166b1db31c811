"""The local Ray of the embedded default, on this very machine: found again, replaced, stopped, and kept to itself."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from adapters.ray.local import LocalRay
from adapters.ray.sessions import ProcessId
from ports.errors import Unavailable

pytestmark = pytest.mark.xdist_group("ray")
LABELS = {"gridweave.io/demo": "true"}
LISTENING = "0A"  # the state's code in /proc/net/tcp


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("local-ray")
    yield home
    LocalRay(home, LABELS).stop()


def members(local: LocalRay) -> set[ProcessId]:
    return {process for node in local.nodes for process in node.session.members()}


def test_a_live_one_is_used_again_by_whoever_comes_later(home: Path) -> None:
    """A gateway that was killed finds its Ray, its agents and its runs where it left them."""
    first, said = LocalRay(home, LABELS), list[str]()
    address = first.ensure()
    gcs = first.nodes[0].gcs
    later = LocalRay(home, LABELS, said.append)
    assert address == later.ensure()
    assert gcs == later.nodes[0].gcs
    assert [] == said


def test_one_that_lost_its_raylet_is_started_anew(home: Path) -> None:
    """A head without a node answers, and carries no agent ever again."""
    local = LocalRay(home, LABELS)
    local.ensure()
    old = local.nodes[0]
    raylet = old.raylet
    assert raylet is not None
    assert "" == local.fault()
    os.kill(raylet.pid, signal.SIGKILL)
    while raylet.alive:  # a signal is sent before it arrives
        time.sleep(0.01)
    assert "the local Ray's raylet died" == local.fault()
    local.ensure()
    assert "" == local.fault()
    assert () == old.session.members()
    assert local.nodes[0].raylet is not None


def test_one_whose_store_dies_while_it_is_starting_is_given_up_at_once(tmp_path: Path) -> None:
    """What starts it would wait for a minute, and the demo with it."""
    local = LocalRay(tmp_path, LABELS)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(local.ensure)
        while not (nodes := local.nodes) or (gcs := nodes[0].gcs) is None:
            time.sleep(0.01)
        time.sleep(0.3)  # until who starts it has seen it too
        os.kill(gcs.pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match=r"its GCS.* died while it was starting"):
            started.result()
    assert () == local.nodes


def test_one_with_other_labels_is_replaced(home: Path) -> None:
    """Another demo fleet must not be carried by nodes that say what the last one said."""
    LocalRay(home, LABELS).ensure()
    other = LocalRay(home, {"gridweave.io/node": "mine"})
    other.ensure()
    assert [{"gridweave.io/node": "mine"}] == [node.labels for node in other.nodes]


def test_nobody_else_on_the_network_can_reach_it(home: Path) -> None:
    """Whoever reaches a Ray runs code in it."""
    local = LocalRay(home, LABELS)
    local.ensure()
    heard = {address for process in members(local) for address in listening(process.pid)}
    assert heard
    assert {"127.0.0.1"} == heard


def test_it_knows_no_secret_of_whoever_started_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's code can read the environment of every process of its own user."""
    LocalRay(home, LABELS).stop()
    monkeypatch.setenv("ADMIN_TOKEN", "very-secret")
    local = LocalRay(home, LABELS)
    local.ensure()
    environments = [Path(f"/proc/{process.pid}/environ").read_bytes() for process in members(local)]
    assert any(b"RAY_AUTH_MODE=disabled" in each for each in environments)
    assert not any(b"very-secret" in each for each in environments)


def test_stop_ends_all_of_it_and_no_other_ray(home: Path, tmp_path: Path) -> None:
    """People run other Rays on the same machine."""
    ours, other = LocalRay(home, LABELS), LocalRay(tmp_path, LABELS)
    ours.ensure()
    try:
        address = other.ensure()
        sessions, others = [node.session for node in ours.nodes], members(other)
        LocalRay(home, LABELS).stop()
        assert [()] == [session.members() for session in sessions]
        assert () == ours.nodes
        assert others <= members(other)
        assert address == other.ensure()
    finally:
        other.stop()


def listening(pid: int) -> set[str]:
    """Addresses on which that process listens for TCP."""
    inodes = {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in inodes:
                found.add(_address(fields[1].partition(":")[0]))
    return found


def _address(text: str) -> str:
    """An IPv4 address, also when written as IPv6; other IPv6 addresses stay in hex."""
    mapped = "0000000000000000FFFF0000"
    if len(text) == 32 and not text.startswith(mapped):
        return text
    return ".".join(str(byte) for byte in reversed(bytes.fromhex(text[-8:])))
