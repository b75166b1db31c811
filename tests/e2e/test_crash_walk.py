"""A real SIGKILL of the gateway at every call to a port, and nothing is lost, leaked, run twice or charged twice.

CI takes one call of each method, and each write of an object; `make crash` takes every call, one at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.e2e.rig import Rig
from tests.e2e.walk import ROUND, Walk, restarts

EVERY_SITE = ("workloads.replace@", "credits.charge@", "nodes.put_status@")
MUST = {
    *("workloads.create", "workloads.replace", "workloads.delete", "workloads.list", "workloads.changes", "nodes.put_status"),
    *("credits.authorise", "credits.charge", "credits.void", "blobs.copy", "blobs.put", "blobs.grant_read", "metering.record"),
    *("epochs.raise_to", "leadership.acquire", "cluster.nodes", "cluster.agent", "tariffs.in_force"),
    *("agent.hello", "agent.reports", "agent.prepare", "agent.go", "agent.kill", "agent.forget"),
}


READS = {
    *("workloads.get", "workloads.list", "workloads.changes", "nodes.get", "nodes.list", "epochs.read", "leadership.holder"),
    *("credits.account", "credits.journal", "tariffs.in_force", "blobs.stat", "blobs.get", "blobs.list", "blobs.grant_read"),
    *("blobs.grant_write", "cluster.nodes", "cluster.address", "agent.reports"),
}  # which change nothing: a death after one leaves what a death before it leaves
MAY_MISS = 4  # places where two things must meet; their methods have been died at elsewhere


def method(point: str) -> tuple[str, str]:
    """Of a point: the method, and whether before or after."""
    call, when, _ = point.rsplit(":", 2)
    return call.partition("@")[0], when


def points(calls: Iterable[str], whole: bool) -> list[str]:
    """Before and after each; of a method that is called from many places one place is enough, unless the walk is whole."""
    chosen: dict[str, str] = {}
    for call in calls:
        kept_apart = whole or call.startswith(EVERY_SITE)
        chosen.setdefault(call if kept_apart else call.partition("@")[0], call if kept_apart else call.partition("@")[0])
    both, one = ("before", "after"), ("before",)
    return [f"{call}:{when}:1" for name, call in chosen.items() for when in (both if whole or name.partition("@")[0] not in READS else one)]


@pytest.mark.timeout(3600)
def test_a_gateway_may_die_at_any_call(rig: Rig, tmp_path: Path) -> None:
    """It is one process of many on a machine of many, and will be killed."""
    whole = os.environ.get("GRIDWEAVE_CRASH_WALK") == "whole"
    with restarts(rig):
        walk = Walk(rig, tmp_path)
        calls = walk.record()
        assert MUST <= {call.partition("@")[0] for call in calls}
        wanted = points(calls, whole)
        walk.die_at(wanted, 1 if whole else ROUND)
    print(f"{len(walk.died)} deaths at {len({method(each) for each in walk.died})} calls; not come by: {walk.missed or 'none'}")
    assert {method(each) for each in wanted} == {method(each) for each in walk.died}
    assert len(walk.missed) <= (len(wanted) // 10 if whole else MAY_MISS), walk.missed
