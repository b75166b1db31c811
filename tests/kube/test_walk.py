"""A real SIGKILL of gateway and scheduler at the store's own boundaries: create, compare-and-swap, finalizer, Lease.

CI takes these, and of two points with the same state between them one; `make crash-k8s` takes every request to Kubernetes
and every call to a port, of the biller too.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtimes.failpoints import FAILPOINT, LOG
from tests.e2e.volleys import ALL
from tests.e2e.walk import ROUND, Walk, restarts
from tests.kube.house import KubeHouse

WHOLE = os.environ.get("GRIDWEAVE_CRASH_WALK") == "whole"
UNBILLED = tuple(kind for kind in ALL if kind != "exhausted")  # nobody runs dry while nobody bills

CREATE = "kube.create_namespaced_custom_object@workloads.create<submit._create"
SWAP = "kube.replace_namespaced_custom_object_status@workloads._swap<workloads.replace"
DELETE = "kube.delete_namespaced_custom_object@workloads.delete<funding.withdraw"
UNHOLD = "kube.patch_namespaced_custom_object@workloads._unhold<workloads.delete"
TERM = "kube.replace_namespaced_custom_object@epochs.raise_to<term.take_epoch"
TAKE = "lease.create_namespaced_lease@leadership._create<leadership._take_or_renew"
RENEW = "lease.replace_namespaced_lease@leadership._replace<leadership._take_or_renew"
OF_A_GATEWAY = [
    *(f"{CREATE}:{when}:1" for when in ("before", "after")),
    f"{SWAP}:after:1",
    f"{DELETE}:before:1",
    *(f"{UNHOLD}:{when}:1" for when in ("before", "after")),
]
OF_A_SCHEDULER = [f"{TAKE}:after:1", f"{TERM}:after:1", f"{SWAP}:before:1", f"{SWAP}:after:1", f"{RENEW}:before:1"]


def points(calls: Iterable[str]) -> list[str]:
    return [f"{call}:{when}:1" for call in calls for when in ("before", "after")]


@pytest.mark.timeout(7200)
def test_a_gateway_may_die_at_any_request_to_the_store(house: KubeHouse, tmp_path: Path) -> None:
    """What it was about to write, or has written without a word to anybody, is finished by whoever comes next."""
    with billed(house, tmp_path), restarts(house.rig):
        walk = Walk(house.rig, tmp_path, sent=sent())
        walk.die_at(points(walk.record()) if WHOLE else OF_A_GATEWAY, 1 if WHOLE else ROUND)
        all_but_few(walk)


@pytest.mark.timeout(7200)
def test_a_scheduler_may_die_at_any_request_to_the_store(house: KubeHouse, tmp_path: Path) -> None:
    """The next one takes what is stored, and what the agents say, for what is so."""
    victim, other = house.schedulers
    common = victim.settings
    other.stop()
    try:
        with billed(house, tmp_path):
            walk = Walk(house.rig, tmp_path, victim, sent(), house.forget_the_lease)
            walk.die_at(points(walk.record()) if WHOLE else OF_A_SCHEDULER, 1 if WHOLE else ROUND)
            all_but_few(walk)
    finally:
        victim.kill()
        victim.settings = common
        victim.start()
        other.start()


def all_but_few(walk: Walk) -> None:
    """A point that was never come by has shown nothing. Some calls come about by chance, those of the store's boundaries never."""
    assert len(walk.missed) <= (len(walk.died) // 10 if WHOLE else 0), walk.missed
    assert not {*OF_A_GATEWAY, *OF_A_SCHEDULER} & set(walk.missed)


def sent() -> tuple[str, ...]:
    return ALL if WHOLE else UNBILLED


@contextmanager
def billed(house: KubeHouse, folder: Path) -> Iterator[None]:
    """In the whole walk, rounds of the biller meanwhile; every other one dies at one of its calls."""
    if not WHOLE:
        yield
        return
    stop, failure = threading.Event(), list[str]()
    thread = threading.Thread(target=_bill, args=(house, folder, stop.is_set, failure), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(120)
    assert not failure, failure


def _bill(house: KubeHouse, folder: Path, stop: Callable[[], bool], failure: list[str]) -> None:
    calls = folder / "calls of the biller"
    while not stop() and not failure:
        for point in [*(points(sorted(set(calls.read_text().split()))) if calls.exists() else []), ""]:
            if stop():
                return
            if point:
                _ended(house.biller(**{FAILPOINT: point}))
            code, said = _ended(house.biller(**{LOG: str(calls)}))
            if code:
                failure.append(f"after a death at {point}: {said}")


def _ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    said = process.communicate(timeout=120)[1]
    return process.returncode, said
