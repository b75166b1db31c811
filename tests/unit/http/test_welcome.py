"""What the terminal says while a gateway starts."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from attrs import evolve

from ports.nodes import NodeState
from runtimes.http.welcome import Welcome
from runtimes.settings import load
from tests.unit.http.conftest import ALICE, Gateway, until

FLEET = "2x2xA100-80GB:org,1x1xL4-24GB:provider:acme"
DEMO = load({}, {"DEMO_FLEET": FLEET}).settings


def test_the_terminal_is_told_what_takes_time_and_where_state_is(tmp_path: Path) -> None:
    """Ten silent seconds look like a fault."""
    said: list[str] = []
    (tmp_path / "ray").mkdir()
    Welcome(DEMO, "http://127.0.0.1:8200", tmp_path, said.append).begin()
    assert str(tmp_path) in said[0]
    assert "  store: sqlite, blobs: folder, Ray: local, credits: on (embedded)" == said[1]
    assert "starting a local Ray (about 10 s)" in said[2]


def test_the_terminal_is_told_once_that_it_drains_and_how_long(tmp_path: Path) -> None:
    """A prompt that does not come back looks like a hang; each of the workers is stopped."""
    said: list[str] = []
    stopped: list[int] = []
    welcome = Welcome(DEMO, "http://127.0.0.1:8200", tmp_path, said.append)
    for worker in (1, 2):
        welcome.parting(partial(stopped.append, worker))()
    assert (["  stopping: no new work is taken; open requests have up to 20 s to end, at Ctrl-C none"], [1, 2]) == (said, stopped)


def test_the_terminal_is_told_when_every_node_is_ready(gateway: Gateway, tmp_path: Path) -> None:
    """With what to type next; once, however many processes serve."""
    said: list[str] = []
    welcome = Welcome(DEMO, "http://127.0.0.1:8200", tmp_path, said.append, patience=1_000_000)
    services = welcome.joined(evolve(gateway.services, not_ready=list))
    gateway.node("n2", ("L4-24GB", 24), state=NodeState.UNREACHABLE)
    services.on_start()
    services.on_start()
    assert 200 == gateway.get("/v1/account", ALICE).status_code
    assert [] == said, "two nodes are still missing"
    gateway.node("n3", ("L4-24GB", 24))
    record = gateway.house.nodes.get("n2")
    assert record is not None
    gateway.house.nodes.put_status(evolve(record, status=evolve(record.status, state=NodeState.READY)))
    gateway.look()

    async def told() -> None:
        await until(lambda: bool(said))
        await asyncio.sleep(0)

    gateway.run(told())
    assert ["  ready: 4 GPUs on 3 nodes; try: GRIDWEAVE_URL=http://127.0.0.1:8200 gridweave gpus"] == said
