"""A refusal names the one constraint that rules everything out, and what would fit."""

from __future__ import annotations

from typing import Any

import pytest

from core.inventory import Fleet, fold
from core.owners import pools
from core.quotes import check_fits
from ports.errors import NeverFits
from ports.nodes import Gpu, NodeRecord, NodeState, NodeStatus
from ports.units import Mib
from ports.workloads import Ask


def node(name: str, owner: str, count: int, model: str, gb: int, vendor: str = "nvidia") -> NodeRecord:
    gpus = tuple(Gpu(index, model, vendor, Mib(gb * 1024)) for index in range(count))
    return NodeRecord(name, status=NodeStatus(NodeState.READY, owner=owner, gpus=gpus))


FLEET: Fleet = fold(
    [
        node("org-1", "org", 4, "A100-80GB", 80),
        node("org-2", "org", 4, "A100-80GB", 80),
        node("acme-1", "provider:acme", 2, "L4-24GB", 24),
        node("zeta-1", "provider:zeta", 1, "MI300X-192GB", 192, "amd"),
    ],
    [],
)


def refused(plan: str = "paid", gb: int = 8, **ask: Any) -> NeverFits:
    wanted = Ask(Mib(gb * 1024), **ask)
    with pytest.raises(NeverFits) as caught:
        check_fits(FLEET, wanted, pools("alice", plan, wanted.owner))
    return caught.value


@pytest.mark.parametrize(
    ("ask", "field", "says"),
    [
        ({"model": "A100"}, "gpu", ("'A100'", "Did you mean A100-80GB?", "A100-80GB, L4-24GB, MI300X-192GB")),
        ({"model": "a100-80gb"}, "gpu", ("Did you mean A100-80GB?",)),
        ({"model": "A10O-80GB"}, "gpu", ("Did you mean A100-80GB?",)),
        ({"model": "TPU"}, "gpu", ("'TPU'", "A100-80GB, L4-24GB, MI300X-192GB")),
        ({"vendor": "foo"}, "vendor", ("'foo'", "amd, nvidia")),
        ({"vendor": "Nvidia"}, "vendor", ("Did you mean nvidia?",)),
        ({"owner": "provider:acmee"}, "owner", ("provider:acmee", "Did you mean provider:acme?", "org, provider:acme, provider:zeta")),
        ({"owner": "self_host"}, "owner", ("your own",)),
        ({"owner": "provider:acme", "model": "A100-80GB"}, "owner", ("provider:acme", "L4-24GB", "belongs to org")),
        ({"model": "L4-24GB", "vendor": "amd"}, "vendor", ("amd L4-24GB", "nvidia")),
        ({"gpus": 5}, "gpus", ("5 GPUs", "4 is the most there is, on org-1")),
        ({"gpus": 3, "owner": "provider"}, "gpus", ("3 GPUs", "2 is the most there is, on acme-1")),
        ({"gpus": 2, "gb": 96}, "vram", ("2 GPUs of one node with 98304 MiB", "196608 MiB", "81920 MiB each")),
        ({"gb": 200}, "vram", ("204800 MiB", "196608 MiB")),
    ],
)
def test_the_constraint_that_rules_everything_out_is_named(ask: dict[str, Any], field: str, says: tuple[str, ...]) -> None:
    """ "None at any size" sends a user to change the one thing that was right."""
    said = refused(**ask)
    assert field == said.field
    assert [] == [part for part in says if part not in str(said)]


def test_what_the_plan_rules_out_is_not_said_to_be_missing() -> None:
    """A free user who reads that there is no L4 sees one in `gridweave gpus`."""
    said = refused("free", model="L4-24GB")
    assert "gpu" == said.field
    for part in ("open to your plan", "provider:acme", "A100-80GB"):
        assert part in str(said)
    assert "Did you mean" not in str(said)


def test_only_vram_has_a_largest() -> None:
    """A client that asks again with `largest` must not do so where VRAM was not the matter."""
    assert (80 * 1024, 0, 0) == (refused(gpus=2, gb=96).largest, refused(gpus=5).largest, refused(model="A100").largest)


def test_a_fleet_without_gpus_refuses_nothing() -> None:
    """Nodes may join."""
    check_fits(fold([], []), Ask(Mib(1), model="TPU"), pools("alice", "paid"))
