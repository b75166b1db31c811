"""An estimate tells what the queue would do, not what an empty queue would."""

from __future__ import annotations

from core.callers import Caller
from core.estimate import estimate
from core.house import House, Terms
from core.inventory import Fleet, fold
from ports.nodes import Gpu, NodeRecord, NodeState, NodeStatus
from ports.units import Instant, Mib
from ports.workloads import Ask, BlobRef, Job, JobSpec
from tests.memory.clock import ManualClock

ANN = Caller("ann")
BLOB = BlobRef("0" * 64, 1)


def house() -> House:
    unused: None = None
    return House(unused, unused, unused, unused, unused, ManualClock(), unused, Terms(), unused)  # type: ignore[arg-type]


def fleet() -> Fleet:
    """One A100 and one L4, idle."""
    gpus = (Gpu(0, "A100", "nvidia", Mib(81_920)), Gpu(1, "L4", "nvidia", Mib(24_576)))
    return fold([NodeRecord("n1", status=NodeStatus(NodeState.READY, owner="org", gpus=gpus))], [])


def waiting(mib: int, gpus: int = 1) -> Job:
    return Job("earlier", "u", Instant(1), JobSpec("bob", "free", "f", Ask(Mib(mib), gpus), BLOB, BLOB))


def test_an_idle_gpu_that_an_earlier_job_will_take_is_not_promised() -> None:
    """Else people submit on the strength of it and wait."""
    assert estimate(house(), ANN, Ask(Mib(60_000)), fleet()).placement is not None
    found = estimate(house(), ANN, Ask(Mib(60_000)), fleet(), [waiting(70_000)])
    assert found.placement is None
    assert found.reason


def test_a_gpu_that_no_earlier_job_can_use_is_promised() -> None:
    """The L4 is too small for the one that waits."""
    found = estimate(house(), ANN, Ask(Mib(20_000)), fleet(), [waiting(70_000)])
    assert found.placement is not None
    assert [1] == [slot.gpu for slot in found.placement]


def test_a_job_that_no_machine_here_can_hold_stands_aside() -> None:
    """Three GPUs of one node are more than there are: nobody has to wait behind it."""
    found = estimate(house(), ANN, Ask(Mib(10_000)), fleet(), [waiting(10_000, gpus=3)])
    assert found.placement is not None
