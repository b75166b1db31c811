"""A term that begins with too small a number ends at once, and says above which one the next has to be."""

from __future__ import annotations

from attrs import evolve

from adapters.local.randomness import SystemRandomness
from core.house import House, Terms
from core.lifecycle import FREE
from ports.units import Instant, Mib
from ports.workloads import Phase, Run, RunId, RunState, Slot
from runtimes.batch.term import Term
from tests.contract.samples import a_job
from tests.memory.blobs import MemoryBlobs
from tests.memory.clock import ManualClock
from tests.memory.cluster import MemoryCluster
from tests.memory.credits import MemoryCredits
from tests.memory.epochs import MemoryEpochs
from tests.memory.metering import MemoryMetering
from tests.memory.nodes import MemoryNodes
from tests.memory.tariffs import MemoryTariffs
from tests.memory.workloads import MemoryWorkloads


def test_an_object_of_a_newer_term_ends_a_term_before_it_has_begun() -> None:
    """After the record of epochs was lost: else each term would fail in its turn, counting up from one."""
    clock, workloads, epochs = ManualClock(), MemoryWorkloads(), MemoryEpochs()
    nodes, credits, blobs = MemoryNodes(), MemoryCredits(clock), MemoryBlobs(clock)
    house = House(workloads, nodes, credits, MemoryTariffs(), blobs, clock, SystemRandomness(), Terms(), MemoryMetering())
    job = workloads.create(a_job("job-1"))
    run = Run(RunId("job-1", 1), RunState.BOOKED, (Slot("n1", 0, Mib(8192)),), 41, FREE, Instant(1))
    workloads.replace(evolve(job, status=evolve(job.status, phase=Phase.ALLOCATED, attempt=1, runs=(run,))))
    term = Term(house, MemoryCluster(()), epochs, lambda: True)
    term.run()
    assert (1, 41) == (epochs.read(), term.newest)
