"""Which GPUs a job gets: the tightest that fits, in the order of its owner's plan, and never what it may not have."""

from __future__ import annotations

from typing import Any

import gridweave as gw
import httpx
import pytest

from tests.e2e.rig import ACME, BIG, SMALL, Rig, User, until

A100, L4 = 80 * 1024, 24 * 1024


def slots(user: User, **options: Any) -> list[tuple[str, int, int]]:
    """Where a job that holds its GPUs was placed: node, GPU, MiB."""
    placement = user.hold(**options).status()["placement"]
    return [(slot["node"], slot["gpu"], slot["mib"]) for slot in placement]


def test_the_tightest_gpu_that_fits_is_taken(rig: Rig) -> None:
    """What is large stays whole for those who need it."""
    user = rig.user()
    assert [(SMALL, 0, 8 * 1024)] == slots(user, vram="8GB", owner="org")
    assert [(SMALL, 0, 12 * 1024)] == slots(user, vram="12GB", owner="org")
    assert [(SMALL, 1, 8 * 1024)] == slots(user, vram="8GB", owner="org")
    assert [(BIG, 0, 20 * 1024)] == slots(user, vram="20GB", owner="org")
    assert [(SMALL, 0, 4 * 1024)] == slots(user, vram="4096MiB", owner="org")


def test_several_gpus_are_of_one_node_the_one_left_with_least(rig: Rig) -> None:
    """Two GPUs of two machines are no use to a function."""
    user = rig.user()
    assert [(SMALL, 0, 20 * 1024), (SMALL, 1, 20 * 1024)] == slots(user, vram="20GB", gpus=2, owner="org")
    assert [(BIG, 0, 5 * 1024), (BIG, 1, 5 * 1024)] == slots(user, vram="5GB", gpus=2, owner="org")


def test_a_paying_user_gets_providers_hardware_first_then_the_organisations(rig: Rig) -> None:
    """Providers joined to earn; the organisation's own is the reserve."""
    user = rig.user(plan="paid")
    nodes = [slots(user, vram="20GB")[0][0] for _ in range(3)]
    assert [ACME, ACME, SMALL] == nodes


def test_a_free_user_waits_rather_than_run_on_providers_hardware(rig: Rig) -> None:
    """Nobody pays the provider for it."""
    paying, free = rig.user(plan="paid"), rig.user(plan="free")
    for _ in range(2):
        paying.hold(vram="1GB", gpus=2, exclusive=True, owner="org")
    job = free.spawn(lambda: None, vram="1GB")
    status = free.in_phase(job, {"Allocated", "Running"} if not (said := job.status())["waiting"] else {said["phase"]})
    assert ("Pending", []) == (status["phase"], status["placement"])
    acme = rig.resources()[ACME]["gpus"]
    assert [L4, L4] == [gpu["free_mib"] for gpu in acme]


def test_a_run_sees_the_gpus_that_were_booked_and_no_other(rig: Rig) -> None:
    """Two users on one GPU by accident are two users without memory."""

    def visible() -> list[str]:
        import os

        return os.environ["CUDA_VISIBLE_DEVICES"].split(",")

    user = rig.user()
    user.hold(gpu="A100-80GB", exclusive=True)
    job = user.spawn(visible, gpu="A100-80GB", exclusive=True)
    assert ["1"] == job.result(timeout=60)
    assert ["0", "1"] == user.spawn(visible, owner="provider", gpus=2).result(timeout=60)


@pytest.mark.parametrize("owner", ["provider", "provider:acme", "self_host"])
def test_a_free_user_is_refused_providers_hardware_whatever_is_asked(rig: Rig, owner: str) -> None:
    """A constraint narrows the policy and never widens it."""
    free = rig.user(plan="free")
    with pytest.raises(gw.Refused) as caught:
        free.spawn(lambda: None, owner=owner)
    assert (400, "owner") == (caught.value.status, caught.value.field)
    assert "plan" in str(caught.value)
    assert [] == list(free.client.jobs())


def test_an_exclusive_ask_gets_a_whole_idle_gpu_and_nobody_beside_it(rig: Rig) -> None:
    """It was asked for because others would disturb it."""
    user = rig.user()
    shared = {"gpu": "L4-24GB", "owner": "org", "vram": "1GB"}
    assert [(SMALL, 0, 1024)] == slots(user, **shared)
    assert [(SMALL, 1, L4)] == slots(user, **shared, exclusive=True)
    assert [(SMALL, 0, 1024)] == slots(user, **shared)
    waits = user.spawn(lambda: None, **shared, exclusive=True)
    assert "Pending" == user.in_phase(waits, {"Allocated"} if not waits.status()["waiting"] else {"Pending"})["phase"]


def test_constraints_on_model_and_owner_are_kept(rig: Rig) -> None:
    """A kernel compiled for one model fails on another."""
    user = rig.user()
    assert BIG == slots(user, vram="1GB", gpu="A100-80GB")[0][0]
    assert SMALL == slots(user, vram="1GB", gpu="L4-24GB", owner="org")[0][0]
    assert ACME == slots(user, vram="1GB", provider="acme")[0][0]
    assert ACME == slots(user, vram="1GB", owner="provider", vendor="nvidia")[0][0]


def test_a_provider_runs_on_his_own_hardware_without_a_bill(rig: Rig) -> None:
    """Nobody rents from himself."""
    acme = rig.user("acme", plan="paid", role="provider", credits=None)
    before = acme.balance()
    job = acme.spawn(lambda: 7, owner="self_host")
    assert 7 == job.result(timeout=60)
    status = acme.ended(job)
    assert [ACME] == [slot["node"] for slot in status["placement"]]
    assert ("0.000000", "0.000000") == (status["hold"], status["charged"])
    assert before == acme.balance()


@pytest.mark.parametrize(
    ("options", "largest"),
    [
        ({"vram": "81GB"}, A100),
        ({"vram": "25GB", "gpu": "L4-24GB"}, L4),
        ({"vram": "30GB", "owner": "provider"}, L4),
        ({"vram": "1GB", "gpus": 3}, 0),
        ({"vram": "1GB", "gpu": "H100-80GB"}, 0),
        ({"vram": "1GB", "vendor": "amd"}, 0),
        ({"vram": "1GB", "owner": "provider:nobody"}, 0),
    ],
    ids=str,
)
def test_an_ask_that_no_gpu_could_ever_hold_is_refused_with_the_largest_that_could(rig: Rig, options: Any, largest: int) -> None:
    """It would wait for ever; and the user learns what would work."""
    user = rig.user()
    with pytest.raises(gw.Refused) as caught:
        user.spawn(lambda: None, **options)
    assert (422, "never-fits", largest) == (caught.value.status, caught.value.kind, caught.value.facts["largest_mib"])
    assert [] == list(user.client.jobs())


@pytest.mark.parametrize(
    "ask",
    [{"vram": "8GB"}, {"vram": "8GB", "owner": "org"}, {"vram": "30GB", "gpus": 2}, {"vram": "2GB", "exclusive": True}],
    ids=str,
)
def test_an_estimate_says_where_the_job_then_goes_and_what_it_costs(rig: Rig, ask: dict[str, Any]) -> None:
    """A dry run that differs from the run is worse than none."""
    user = rig.user()
    said = user.direct.post("/v1/jobs/estimate", json=ask).json()
    assert said["placeable_now"] is True
    status = user.hold(**ask).status()
    assert said["placement"] == status["placement"]
    assert said["placed_rate_per_hour"] == status["rate_per_hour"]


def test_a_drained_node_takes_no_new_work_and_keeps_what_runs(rig: Rig) -> None:
    """That is how a machine is emptied for repair."""

    def drain(name: str, wanted: bool) -> None:
        said = httpx.put(f"{rig.gateway.url}/v1/admin/nodes", json={"name": name, "drain": wanted}, headers=rig.admin, timeout=30)
        assert 200 == said.status_code, said.text

    user = rig.user()
    old = user.hold(vram="1GB", owner="org")
    try:
        drain(SMALL, True)
        ask = {"vram": "1GB", "gpu": "L4-24GB", "owner": "org"}
        until(lambda: not user.direct.post("/v1/jobs/estimate", json=ask).json()["placeable_now"], "the drain is known")
        for _ in range(60):  # the scheduler reads operators' wishes now and then
            job = user.spawn(lambda: None, vram="1GB", owner="org")
            placed = user.ended(job)["placement"][0]["node"]
            if placed == BIG:
                break
        assert BIG == placed
        assert "Running" == old.status()["phase"]
    finally:
        drain(SMALL, False)
    for _ in range(60):
        if SMALL == user.ended(user.spawn(lambda: None, vram="1GB", owner="org"))["placement"][0]["node"]:
            return
    raise AssertionError("the node takes no work any more")
