"""An estimate tells what the queue would do, not what an empty queue would."""

from __future__ import annotations

import pytest
from attrs import evolve

from core.callers import Caller
from core.estimate import estimate
from core.house import House, Terms
from core.inventory import Fleet, fold
from core.ledger import VramLedger
from core.lifecycle import FREE
from core.mirror import Mirror
from core.owners import ORG_POOL
from core.policies import PlacementPolicy, policy
from ports.nodes import Gpu, NodeRecord, NodeState, NodeStatus
from ports.units import Instant, Mib
from ports.workloads import Ask, BlobRef, Changes, Job, JobSpec, JobStatus, Phase, Run, RunId, RunState, Slot
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


UNEQUAL = (Gpu(0, "A", "nvidia", Mib(9_600)), Gpu(1, "B", "nvidia", Mib(12_000)))


def after(name: PlacementPolicy, asks: int) -> Fleet:
    """What a gateway shows after so many jobs for 4,800 and 6,000 MiB have come and gone."""
    mirror = Mirror(policy(name))
    records = [NodeRecord("n1", status=NodeStatus(NodeState.READY, owner="org", gpus=UNEQUAL))]
    for at in range(asks):
        come = Job(f"j{at}", "u", Instant(at), JobSpec("bob", "free", "f", Ask(Mib(4_800 + at % 2 * 1_200)), BLOB, BLOB), JobStatus(), "1")
        mirror.fleet(records)
        run = Run(RunId(come.id, 1), RunState.BOOKED, (Slot("n1", 0, come.spec.ask.mib),), 1, FREE, Instant(at))
        placed = evolve(come, status=JobStatus(Phase.ALLOCATED, runs=(run,)))
        for seen in (come, placed, evolve(come, status=JobStatus(Phase.COMPLETED))):
            mirror.apply(Changes((seen,), (), ""))
    again = Mirror()
    again.succeed(mirror)  # as when a gateway has to read everything anew
    return again.fleet(records)


@pytest.mark.parametrize("name", PlacementPolicy)
@pytest.mark.parametrize("asks", [10, 100])
def test_an_estimate_names_the_gpu_that_the_policy_will_choose(name: PlacementPolicy, asks: int) -> None:
    """Best fit leaves 3,600 MiB that nobody asks for; a policy that has heard enough does not, and the estimate must say so."""
    ledger = VramLedger(policy(name))
    ledger.add_node("n1", "org", UNEQUAL)
    for at in range(asks):
        ledger.reserve(RunId(f"j{at}", 1), Ask(Mib(4_800 + at % 2 * 1_200)), (ORG_POOL,))
        ledger.release(RunId(f"j{at}", 1))
    fleet = after(name, asks)
    found = [estimate(house(), ANN, Ask(Mib(6_000)), fleet).placement for _ in range(2)]  # one estimate changes no other
    assert [ledger.reserve(RunId("mine", 1), Ask(Mib(6_000)), (ORG_POOL,))] * 2 == found
    learned = name is PlacementPolicy.RESIDUAL_VALUE and asks > 64  # balance is best fit here: the fleet has room
    assert [1 if learned else 0] == [slot.gpu for slot in found[0] or ()]


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
