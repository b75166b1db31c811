"""The roster: who answers, what the records say, and what the ledger may offer of it."""

from __future__ import annotations

import pytest
from attrs import evolve

from core.ledger import VramLedger
from core.roster import GRACE, NAP, Roster
from ports.cluster import ClusterNode, Hello, ReportState, RunReport
from ports.errors import StaleEpoch
from ports.nodes import Gpu, NodeRecord, NodeSpec, NodeState, NodeStatus, Quarantine
from ports.units import Mib, Span
from ports.workloads import RunId, Slot
from tests.memory.nodes import MemoryNodes

GPU = Gpu(0, "A100", "nvidia", Mib(100))
RUN, OTHER = RunId("job", 1), RunId("other", 1)
LOST_AFTER = Span.of(seconds=90)
SLOT = Slot("n1", 0, Mib(60))


def seen(**more: object) -> ClusterNode:
    return ClusterNode("n1", True, **{"owner": "org", **more})  # type: ignore[arg-type]


def hello(*runs: RunReport, gpus: tuple[Gpu, ...] = (GPU,)) -> Hello:
    return Hello("n1", "i1", 1, "3.11.7", "3.1.2", gpus, runs)


class Crew:
    def __init__(self, epoch: int = 1, records: MemoryNodes | None = None) -> None:
        self.records = records or MemoryNodes()
        self.ledger = VramLedger()
        self.roster = Roster(self.records, self.ledger, epoch, Span(10_000), LOST_AFTER)
        self.roster.load()
        self.now = Span(0)
        self.roster.pass_time(self.now)

    def wait(self, seconds: int) -> None:
        """As a scheduler that takes a round every second."""
        for _ in range(seconds):
            self.now += Span(1_000)
            self.roster.pass_time(self.now)

    def state(self) -> NodeState:
        node = self.roster.get("n1")
        assert node is not None
        return node.record.status.state

    def free(self) -> int:
        node = self.ledger.view().nodes.get("n1")
        return 0 if node is None or node.drain else node.free.n

    def stored(self) -> NodeRecord:
        found = self.records.get("n1")
        assert found is not None
        return found


def test_a_node_offers_its_gpus_once_its_agent_has_said_hello() -> None:
    crew = Crew()
    assert 0 == crew.free()
    crew.roster.up(seen(), hello(), "http://n1")
    assert (NodeState.READY, 100) == (crew.state(), crew.free())
    crew.roster.save_all(crew.now)
    assert ("http://n1", 1, "org", (GPU,)) == (
        crew.stored().status.agent,
        crew.stored().status.epoch,
        crew.stored().status.owner,
        crew.stored().status.gpus,
    )


def test_a_successor_knows_the_gpus_of_a_silent_node_and_offers_nothing_of_them() -> None:
    """Bookings of an earlier term are adopted on it; new ones are not made."""
    first = Crew()
    first.roster.up(seen(), hello(), "")
    first.roster.save_all(first.now)
    second = Crew(2, first.records)
    assert 0 == second.free()
    assert second.ledger.adopt(RUN, (SLOT,))
    assert first.records.get("n1") == second.stored()


def test_a_node_that_never_says_hello_to_a_new_term_is_shown_as_unreachable_after_a_moment() -> None:
    """It may not even be among the engine's nodes any more, so that nobody tells that it is down."""
    first = Crew()
    first.roster.up(seen(), hello(), "")
    first.roster.save_all(first.now)
    second = Crew(2, first.records)
    second.wait(GRACE.ms // 1000 + 1)
    assert NodeState.UNREACHABLE is second.state()


def test_silence_counts_only_while_somebody_is_awake_to_hear_it() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.down("n1", "no answer")
    crew.wait(1)
    crew.roster.pass_time(Span.of(hours=5))
    assert NAP == crew.roster.view("n1", RUN).silent


def test_the_time_before_a_node_fell_silent_is_not_silence() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.now = Span(4_000)
    crew.roster.down("n1", "no answer")
    crew.roster.pass_time(crew.now)
    assert Span(0) == crew.roster.view("n1", RUN).silent
    crew.wait(3)
    assert Span(3_000) == crew.roster.view("n1", RUN).silent


def test_a_node_that_answers_again_has_not_been_silent() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.down("n1", "no answer")
    crew.wait(50)
    crew.roster.up(seen(), hello(), "")
    assert Span(0) == crew.roster.view("n1", RUN).silent


def short_term(epoch: int, records: MemoryNodes, seconds: int) -> Crew:
    """One round of cron: it asks the node in vain for so long."""
    crew = Crew(epoch, records)
    crew.roster.down("n1", "no answer")
    for _ in range(seconds):
        crew.wait(1)
        crew.roster.save_all(crew.now)
    return crew


def test_many_short_terms_give_up_a_silent_node_as_a_long_one_does() -> None:
    """A scheduler that runs by cron would wait for it for ever."""
    first = Crew()
    first.roster.up(seen(), hello(), "")
    first.roster.save_all(first.now)
    epoch = 2
    while short_term(epoch, first.records, 15).roster.view("n1", RUN).silent <= LOST_AFTER and epoch < 20:
        epoch += 1
    assert 7 < epoch < 12
    short_term(20, first.records, 15)
    before = first.stored()
    short_term(21, first.records, 15)
    assert before == first.stored(), "a silence that says enough is written no more"


def test_a_silence_that_was_noted_counts_only_for_who_asks_in_vain_too() -> None:
    """The node may have come back since, while nobody scheduled; and a term whose engine is away can ask nobody."""
    first = Crew()
    first.roster.up(seen(), hello(), "")
    first.roster.save_all(first.now)
    short_term(2, first.records, 85)
    late = Crew(3, first.records)
    late.wait(200)
    late.roster.listed({"n1"})
    late.wait(200)
    assert Span(0) == late.roster.view("n1", RUN).silent
    late.roster.listed(set())
    late.wait(10)
    assert Span(9_000) == late.roster.view("n1", RUN).silent
    late.wait(5)
    assert LOST_AFTER < late.roster.view("n1", RUN).silent
    late.roster.up(seen(), hello(), "")
    late.roster.save_all(late.now)
    assert Span(0) == late.stored().status.silent
    late.roster.down("n1", "no answer")
    late.wait(20)
    assert Span(20_000) > late.roster.view("n1", RUN).silent


def test_a_lost_node_is_not_counted_on_and_counts_again_when_it_is_back() -> None:
    """Jobs wait for a node that restarts, not for one that is gone."""
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.down("n1", "no answer")
    crew.wait(80)
    assert ("n1",) == crew.roster.capacity.names()
    crew.wait(20)
    assert () == crew.roster.capacity.names()
    crew.roster.up(seen(), hello(), "")
    assert ("n1",) == crew.roster.capacity.names()


@pytest.mark.parametrize(
    ("node", "answer", "word"),
    [
        (seen(owner=""), hello(), "owner"),
        (seen(problem="the label gridweave.io/gpus is 'x'"), hello(), "label"),
        (seen(), hello(gpus=()), "no GPU"),
        (seen(), hello(gpus=(GPU, GPU)), "two GPUs"),
        (seen(owner="nobody's"), hello(), "owner"),
    ],
)
def test_a_node_of_which_something_can_not_be_told_gets_no_work_and_says_why(node: ClusterNode, answer: Hello, word: str) -> None:
    """And it stops nobody else: one bad node must not end the scheduler."""
    crew = Crew()
    crew.roster.up(node, answer, "")
    assert (NodeState.UNFIT, 0) == (crew.state(), crew.free())
    crew.roster.save_all(crew.now)
    assert word in crew.stored().status.reason


def test_a_label_may_only_agree_with_the_record() -> None:
    """A provider who relabels his machine can't take over another's name, nor the organisation's."""
    crew = Crew()
    crew.records.put_spec(NodeRecord("n1", NodeSpec(owner="provider:zoe")))
    crew.roster.refresh_specs()
    crew.roster.up(seen(), hello(), "")
    assert NodeState.UNFIT is crew.state()
    crew.roster.up(seen(owner="provider:zoe"), hello(), "")
    assert (NodeState.READY, "provider:zoe") == (crew.state(), crew.roster.owner("n1"))


def test_what_an_operator_sets_is_seen_and_the_scheduler_never_writes_over_it() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.save_all(crew.now)
    stored = crew.stored()
    crew.records.put_spec(evolve(stored, spec=NodeSpec(drain=True)))
    crew.roster.down("n1", "no answer")
    crew.roster.save_all(crew.now)  # meets the operator's write
    assert (True, NodeState.UNREACHABLE) == (crew.stored().spec.drain, crew.stored().status.state)
    crew.roster.up(seen(), hello(), "")
    assert 0 == crew.free()


def test_running_times_are_kept_by_a_term_that_has_not_heard_of_the_run() -> None:
    """They are charged already: a successor that ends the run as lost must bill no less."""
    first = Crew()
    first.roster.up(seen(), hello(RunReport(RUN, ReportState.RUNNING, Span(70_000), started=True)), "")
    first.roster.save_all(Span(20_000))
    assert {str(RUN): Span(70_000)} == first.stored().status.ran
    second = Crew(2, first.records)
    second.roster.down("n1", "no answer")
    second.roster.save_all(Span(40_000))
    third = Crew(3, first.records)
    assert Span(70_000) == third.roster.view("n1", RUN).last_ran
    third.roster.forget("n1", RUN)
    third.roster.save_all(Span(60_000))
    assert {} == third.stored().status.ran


def test_an_older_report_that_comes_later_says_nothing() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    newest = RunReport(RUN, ReportState.GONE, Span(9), stored=True)
    crew.roster.reported("n1", (newest,), {})
    for older in (RunReport(RUN, ReportState.RUNNING, Span(5)), RunReport(RUN, ReportState.GONE, Span(9))):
        crew.roster.reported("n1", (older,), {RUN: Span(5)})
        assert newest == crew.roster.view("n1", RUN).report
    assert Span(9) == crew.roster.view("n1", RUN).last_ran


def test_quarantine_takes_the_slots_from_everybody_and_is_lifted_once() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.quarantine(RUN, [SLOT])
    assert 40 == crew.free()
    crew.roster.quarantine(RUN, [SLOT])
    assert 40 == crew.free()
    crew.roster.save_all(crew.now)
    assert (Quarantine(str(RUN), 0, Mib(60)),) == crew.stored().status.quarantine
    assert [True, False] == [crew.roster.lift("n1", RUN) for _ in range(2)]
    assert 100 == crew.free()


def test_a_record_that_a_newer_term_has_written_ends_this_one() -> None:
    first = Crew(1)
    first.roster.up(seen(), hello(), "")
    first.roster.save_all(first.now)
    second = Crew(2, first.records)
    second.roster.up(seen(), hello(), "http://other")
    second.roster.save_all(second.now)
    first.roster.down("n1", "no answer")
    with pytest.raises(StaleEpoch):
        first.roster.save_all(first.now)
    with pytest.raises(StaleEpoch):
        first.roster.refresh_specs()


def test_a_term_that_never_heard_of_a_node_takes_up_what_its_record_says() -> None:
    """A node that joined late: the running times that were charged, and what may still hold VRAM, are in its record only."""
    crew = Crew()
    status = NodeStatus(
        NodeState.READY, owner="org", gpus=(GPU,), quarantine=(Quarantine(str(RUN), 0, Mib(60)),), ran={str(OTHER): Span(9)}
    )
    crew.records.put_status(NodeRecord("n1", NodeSpec(), status))
    crew.roster.refresh_specs()
    crew.roster.save_all(Span(60_000))
    assert {str(OTHER): Span(9)} == crew.stored().status.ran
    assert [str(RUN)] == list(map(str, crew.ledger.quarantined()))


def test_a_predecessor_ends_at_the_record_of_a_node_that_it_never_heard_of() -> None:
    """It would write what it does not know over what its successor does: a lost run would be billed less than was charged."""
    first = Crew(1)
    second = Crew(2, first.records)
    second.roster.up(seen(), hello(RunReport(RUN, ReportState.RUNNING, Span(9), True)), "http://n1")
    second.roster.save_all(Span(60_000))
    with pytest.raises(StaleEpoch):
        first.roster.refresh_specs()
    assert {str(RUN): Span(9)} == second.stored().status.ran
    with pytest.raises(StaleEpoch):
        Crew(1, first.records)


def test_what_a_predecessor_noted_late_is_taken_over() -> None:
    """It paused before it wrote the quarantine of a lost run, and the successor has read the record before that."""
    first = Crew(1)
    first.roster.up(seen(), hello(), "")
    first.roster.save_all(first.now)
    second = Crew(2, first.records)
    for node in first.roster.quarantine(RUN, [SLOT]):
        first.roster.reported("n1", (RunReport(OTHER, ReportState.RUNNING, Span(5_000), started=True),), {})
        first.roster.save(node)
    second.roster.up(seen(), hello(), "")
    second.roster.save_all(second.now)
    assert 40 == second.free()
    assert (Quarantine(str(RUN), 0, Mib(60)),) == second.stored().status.quarantine


def test_a_node_declared_gone_offers_nothing_and_its_times_stay_until_its_runs_are_settled() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(RunReport(RUN, ReportState.RUNNING, Span(3_000), started=True)), "")
    crew.roster.quarantine(OTHER, [SLOT])
    crew.roster.save_all(Span(20_000))
    crew.records.put_spec(evolve(crew.stored(), spec=NodeSpec(gone=True)))
    crew.roster.refresh_specs()
    crew.roster.save_all(Span(40_000))
    assert (NodeState.GONE, 0, ()) == (crew.state(), crew.free(), crew.stored().status.quarantine)
    assert Span(3_000) == crew.roster.view("n1", RUN).last_ran
    assert {str(RUN): Span(3_000)} == crew.stored().status.ran
    assert {} == crew.ledger.quarantined()


def test_a_record_is_written_only_when_it_changes() -> None:
    """A fleet of a thousand nodes must not be a thousand writes per round."""
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.save_all(crew.now)
    before = crew.stored().version
    for second in range(60):
        crew.roster.save_all(Span(second * 1_000))
    assert before == crew.stored().version


def test_a_deleted_record_is_made_again() -> None:
    crew = Crew()
    crew.roster.up(seen(), hello(), "")
    crew.roster.save_all(crew.now)
    crew.records.delete("n1")
    crew.roster.down("n1", "no answer")
    crew.roster.save_all(crew.now)
    assert NodeState.UNREACHABLE is crew.stored().status.state
    assert NodeStatus().quarantine == crew.stored().status.quarantine


def test_a_run_begins_with_nothing_of_an_ended_one_of_its_name() -> None:
    """Also where the record was written by somebody else meanwhile, and where an earlier term has left it there."""
    records = MemoryNodes()
    records.put_status(NodeRecord("n1", status=NodeStatus(ran={"job/1": Span(90_000), "other/1": Span(5)})))
    crew = Crew(2, records)
    records.put_spec(evolve(crew.stored(), spec=NodeSpec(owner="org")))
    crew.roster.begin(RUN, ["n1"])
    assert {"other/1": Span(5)} == crew.stored().status.ran
    assert Span(0) == crew.roster.view("n1", RUN).last_ran
    crew.roster.save_all(Span(60_000))
    assert {"other/1": Span(5)} == crew.stored().status.ran
