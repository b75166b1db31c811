"""On a machine with real GPUs: what NVML says is what is offered, and a run sees its own share of its own GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pynvml
import pytest

from adapters.ray.labels import NODE, OWNER
from tests.e2e.rig import Rig, standing

pytestmark = pytest.mark.gpu
MIB = 1024 * 1024
LABELS = {"gpu-node": {NODE: "gpu-node", OWNER: "org"}}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """The rig on this machine's own GPUs, which its agent probes."""
    with standing(tmp_path_factory.mktemp("gpu"), LABELS) as rig:
        yield rig


@pytest.fixture(scope="module")
def devices() -> list[dict[str, Any]]:
    """What the driver says, by index."""
    pynvml.nvmlInit()
    handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
    found = [{"uuid": pynvml.nvmlDeviceGetUUID(each), "mib": pynvml.nvmlDeviceGetMemoryInfo(each).total // MIB} for each in handles]
    pynvml.nvmlShutdown()
    return found


def test_totals_and_uuids_are_those_of_the_driver(real: Rig, devices: list[dict[str, Any]]) -> None:
    """VRAM that is not there would be sold."""
    gpus = real.resources()["gpu-node"]["gpus"]
    assert [(each["uuid"], each["mib"]) for each in devices] == [(gpu["uuid"], gpu["total_mib"]) for gpu in gpus]
    assert {"nvidia"} == {gpu["vendor"] for gpu in gpus}


def test_a_run_sees_the_gpu_that_was_booked_and_no_other(real: Rig, devices: list[dict[str, Any]]) -> None:
    """Two users on one GPU by accident are two users without memory."""

    def visible() -> str:
        import os

        return os.environ["CUDA_VISIBLE_DEVICES"]

    user = real.user()
    for _ in devices:
        job = user.spawn(visible, vram="1GB", exclusive=True)
        seen = job.result(timeout=60)
        slot = user.ended(job)["placement"][0]
        assert devices[slot["gpu"]]["uuid"] == seen
        user.hold(vram="1GB", exclusive=True)


def test_frameworks_are_limited_to_the_share_that_was_booked(real: Rig, devices: list[dict[str, Any]]) -> None:
    """A neighbour's allocation must not fail for ours."""

    def share() -> dict[str, str]:
        import os

        return dict(os.environ)

    user = real.user()
    environ = user.spawn(share, vram="1GB").result(timeout=60)
    fraction = float(environ["XLA_PYTHON_CLIENT_MEM_FRACTION"])
    assert 0 < fraction <= 1024 / min(each["mib"] for each in devices)
