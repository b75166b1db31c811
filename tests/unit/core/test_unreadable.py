"""One stored object that can't be read: it waits until it can, what runs by it is left alone, and everything else goes on."""

from __future__ import annotations

from attrs import evolve

from core.ledger import VramLedger
from core.retention import Fate
from core.roster import Roster
from core.schedule import TROUBLES
from core.sweep import fate_of
from ports.cluster import ClusterNode, Hello
from ports.nodes import Gpu, NodeRecord, NodeSpec, NodeState
from ports.units import Mib, Span
from ports.workloads import Phase
from tests.memory.nodes import MemoryNodes
from tests.simulation.actions import Action
from tests.simulation.stage import Stage


def test_the_others_go_on_beside_any_number_of_them() -> None:
    """Each is no sign of a service that is away, which would cut a round short."""
    stage = Stage()
    spoiled = [stage.running(1) for _ in range(TROUBLES + 1)]
    for job in spoiled:
        stage.jobs.spoil(job)
    other = stage.running(8)
    stage.completed(other)
    assert Phase.COMPLETED == stage.phase(other)
    for job in spoiled:
        stage.jobs.spoil(job, mend=True)
        stage.completed(job)
    assert [Phase.COMPLETED] * len(spoiled) == [stage.phase(job) for job in spoiled]


def test_what_ended_meanwhile_is_settled_once_it_can_be_read() -> None:
    """Its result waits on its node, and nothing of it is forgotten."""
    stage = Stage()
    job = stage.running(8)
    stage.jobs.spoil(job)
    stage.rounds(2)
    stage.completed(job)
    stage.rounds(5, ms=5_000)
    stage.jobs.spoil(job, mend=True)
    stage.rounds(4)
    assert Phase.COMPLETED == stage.phase(job)


def test_a_successor_leaves_its_run_alone_and_its_vram_to_it() -> None:
    """Nobody can say that the run is an orphan; the GPU is as full as if its booking had been read."""
    stage = Stage()
    job = stage.running(30)
    full = stage.free("n0")
    stage.jobs.spoil(job)
    stage._crash(Action("crash"))
    stage._begin()
    stage.rounds(5, ms=2_000)
    assert full == stage.free("n0")
    assert ["running"] == [run.state for run in stage.machines["n0"].runs.values()]
    stage.jobs.spoil(job, mend=True)
    stage.rounds(3)
    assert full == stage.free("n0")
    assert [] == stage.quarantined("n0")
    stage.completed(job)
    assert Phase.COMPLETED == stage.phase(job)


def test_a_successor_forgets_nothing_of_one_that_has_ended() -> None:
    """The node alone knows its end and has its result."""
    stage = Stage()
    job = stage.running(8)
    stage.jobs.spoil(job)
    stage._crash(Action("crash"))
    stage.end(job)
    stage.uploaded(job)
    stage._begin()
    stage.rounds(5, ms=2_000)
    stage.jobs.spoil(job, mend=True)
    stage.rounds(4)
    assert Phase.COMPLETED == stage.phase(job)


def test_one_that_waits_holds_up_nobody_behind_it() -> None:
    """Who may never be placed is no reason to keep the line closed."""
    stage = Stage()
    blocking = [stage.running(40), stage.running(40)]
    first = stage.submitted(40)
    stage.rounds(2, ms=1_000)
    stage.jobs.spoil(first)
    second = stage.submitted(40)
    stage.rounds(2)
    stage.completed(blocking[0])
    assert Phase.ALLOCATED == stage.phase(second)
    stage.jobs.spoil(first, mend=True)
    stage.rounds(2)
    assert Phase.PENDING == stage.phase(first)
    stage.completed(blocking[1])
    stage.rounds(2)
    assert Phase.ALLOCATED == stage.phase(first)


def test_nothing_of_it_is_swept() -> None:
    """A job whose state nobody knows may be a live one."""
    stage = Stage()
    job = stage.running(8)
    stage.jobs.spoil(job)
    assert Fate.LIVE is fate_of(stage.house, job)


def test_a_node_whose_record_can_not_be_read_gets_no_work_and_keeps_its_record() -> None:
    """Whose it is, and whether it is drained, is in what can't be read."""
    records, ledger = MemoryNodes(), VramLedger()
    records.put_spec(NodeRecord("n1", NodeSpec("provider:acme", drain=True)))
    records.spoil("n1")
    roster = Roster(records, ledger, 1, Span(10_000), Span.of(seconds=90))
    roster.load()
    gpus = (Gpu(0, "A100", "nvidia", Mib(100)),)
    node = roster.up(ClusterNode("n1", True, owner="org"), Hello("n1", "i1", 1, "3.11.7", "3.1.2", gpus, ()), "http://n1")
    roster.save_all(Span(20_000))
    assert (NodeState.UNFIT, "Its record can't be read.") == (node.record.status.state, node.record.status.reason)
    assert ledger.view().nodes["n1"].drain
    records.spoil("n1", mend=True)
    assert {"n1"} == roster.refresh_specs()
    roster.save_all(Span(40_000))
    stored = records.get("n1")
    assert stored is not None
    assert NodeSpec("provider:acme", drain=True) == stored.spec
    assert (NodeState.UNFIT, 1) == (stored.status.state, stored.status.epoch)  # its label says another owner


def test_a_record_that_becomes_unreadable_is_not_written_over() -> None:
    """The write that was on its way meets another version, and gives up."""
    records = MemoryNodes()
    records.put_spec(NodeRecord("n1"))
    roster = Roster(records, VramLedger(), 1, Span(10_000), Span.of(seconds=90))
    roster.load()
    records.spoil("n1")
    before = records._records["n1"]
    roster.up(ClusterNode("n1", True, owner="org"), Hello("n1", "i1", 1, "3.11.7", "3.1.2", (), ()), "http://n1")
    roster.save_all(Span(20_000))
    assert before == records._records["n1"]
    assert evolve(before, version="") == evolve(NodeRecord("n1"), version="")
