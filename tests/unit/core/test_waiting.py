"""Why a job waits: words that are true of the fleet and the queue at the moment of looking."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from core.inventory import Fleet, fold
from core.mirror import Mirror
from core.owners import pools
from core.shortage import shortage
from core.waiting import waiting
from ports.nodes import Gpu, NodeRecord, NodeSpec, NodeState, NodeStatus, Quarantine
from ports.tariffs import Price
from ports.units import Instant, Mib, Span
from ports.workloads import Ask, BlobRef, Job, JobSpec, JobStatus, Phase, Run, RunId, RunState, Slot

NOTHING = BlobRef("0" * 64, 0)


def job(name: str, at: int = 0, **ask: Any) -> Job:
    spec = JobSpec("alice", "paid", name, Ask(Mib(ask.pop("mib", 1024)), **ask), NOTHING, NOTHING)
    return Job(name, f"uid-{name}", Instant(at), spec)


def running(name: str, *slots: tuple[str, int, int]) -> Job:
    placed = tuple(Slot(node, gpu, Mib(mib)) for node, gpu, mib in slots)
    run = Run(RunId(name, 1), RunState.RUNNING, placed, 1, Price(0, ()), Instant(0))
    return evolve(job(name), status=JobStatus(phase=Phase.RUNNING, attempt=1, runs=(run,)))


def node(name: str, owner: str = "org", count: int = 4, mib: int = 81920, **status: Any) -> NodeRecord:
    gpus = tuple(Gpu(index, "A100-80GB", "nvidia", Mib(mib)) for index in range(count))
    return NodeRecord(name, status=evolve(NodeStatus(NodeState.READY, owner=owner, gpus=gpus), **status))


ONE_USED = fold([node("org-1"), node("org-2", count=2)], [running("a", ("org-1", 0, 1))])


def why(fleet: Fleet, owner: str | None = None, **ask: Any) -> str:
    wanted = Ask(Mib(ask.pop("mib", 81920)), owner=owner, **ask)
    return shortage(fleet, wanted, pools("alice", "paid", owner))


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        ({"gpus": 4}, "Needs 4 GPUs of one node with 81920 MiB free each; the best node, org-1, has 3."),
        ({"gpus": 4, "exclusive": True, "mib": 1}, "Needs 4 idle GPUs of one node with 1 MiB free each; the best node, org-1, has 3."),
        (
            {"mib": 90000, "model": "A100-80GB"},
            "Needs 1 A100-80GB GPU with 90000 MiB free; the most that one has free is 81920 MiB, on org-2.",
        ),
        ({"gpus": 3}, ""),
        ({}, ""),
    ],
)
def test_the_node_that_comes_closest_is_named(ask: dict[str, Any], says: str) -> None:
    """ "None is free at all" was said while three of four were."""
    assert says == why(ONE_USED, **ask)


def test_nothing_free_is_said_where_that_is_so() -> None:
    """And quarantine is not free."""
    kept = node("org-1", count=1, quarantine=(Quarantine("gone/1", 0, Mib(81920)),))
    assert "Needs 1 GPU with 1 MiB free; none has anything free." == why(fold([kept], []), mib=1)
    assert "Needs 1 idle GPU with 1 MiB free; none is idle." == why(fold([kept], []), mib=1, exclusive=True)


def test_a_node_that_could_never_hold_it_is_not_spoken_of() -> None:
    """What is free on small cards says nothing about when a large one will be, nor does it show who takes no new work."""
    small, large = node("small-1", count=2, mib=24576), node("large-1", count=4)
    full = [running(f"r{at}", ("large-1", at, 81920)) for at in range(4)]
    assert why(fold([small, large], full), gpus=4).endswith("; none has anything free.")
    assert "the most that one has free is 1920 MiB, on large-1." in why(
        fold([small, large], [running("r", *(("large-1", at, 80000) for at in range(4)))])
    )
    drained = evolve(large, spec=NodeSpec(drain=True))
    assert "the one node for it, large-1, takes no new work now: it drains." in why(fold([small, drained], []))


def test_nodes_that_take_no_work_are_not_called_full() -> None:
    """The operator must look at the node, not at the queue."""
    drained = evolve(node("org-1"), spec=NodeSpec(drain=True))
    silent = node("org-2", state=NodeState.UNREACHABLE)
    assert "org-1, takes no new work now: it drains." in why(fold([drained], []), mib=1)
    assert "each of the 2 nodes for it takes no new work now: it drains or is Unreachable." in why(fold([drained, silent], []), mib=1)


def test_before_any_node_has_joined_that_is_the_reason() -> None:
    """A fresh cluster is not a full one."""
    assert "No node has joined yet." == why(fold([], []))
    assert "No node has joined yet." == waiting(job("a"), fold([], []), 3)


def queue(*jobs: Job) -> Mirror:
    mirror = Mirror()
    mirror.seed(jobs)
    return mirror


def test_everybody_behind_the_first_is_told_how_many_are_before_him_for_the_same_gpus() -> None:
    """A position without a word looks broken; one that counts other GPUs' jobs looks hopeless."""
    other = job("other", 0, owner="provider")
    mine = [job(f"job-{at}", at, owner="org") for at in range(1, 4)]
    both = job("both", 9)
    mirror = queue(other, *mine, both)
    full = fold([node("org-1", count=1, mib=1024)], [running("r", ("org-1", 0, 1024))])
    texts = [waiting(each, full, mirror.ahead(each.id)) for each in (*mine, both)]
    assert texts[0].startswith("Needs 1 GPU")
    assert "Waits for its turn: 1 earlier job waits for the same GPUs." == texts[1]
    assert "Waits for its turn: 2 earlier jobs wait for the same GPUs." == texts[2]
    assert "Waits for its turn: 4 earlier jobs wait for the same GPUs." == texts[3]
    mirror.seed([evolve(mine[0], status=JobStatus(phase=Phase.CANCELLED))])
    assert 1 == mirror.ahead("job-3")


@pytest.mark.parametrize(
    ("one", "other", "competes"),
    [
        ({"model": "A"}, {"model": "B"}, False),
        ({"model": "A"}, {}, True),
        ({"vendor": "amd"}, {"vendor": "nvidia"}, False),
        ({"owner": "provider:acme"}, {"owner": "provider"}, True),
        ({"owner": "provider:acme"}, {"owner": "provider:zeta"}, False),
        ({"owner": "org"}, {"owner": "provider"}, False),
        ({"owner": "org"}, {}, True),
    ],
)
def test_only_who_could_use_the_same_gpus_is_before_somebody(one: dict[str, Any], other: dict[str, Any], competes: bool) -> None:
    """Whoever waits for other hardware delays nobody here."""
    for first, second in ((one, other), (other, one)):
        assert int(competes) == queue(job("a", 0, **first), job("b", 1, **second)).ahead("b")


def test_what_no_machine_here_can_hold_waits_for_a_machine() -> None:
    """Its node has left since it was taken in; nobody before it is the reason."""
    assert "it waits for one" in waiting(job("a", mib=90000), ONE_USED, 2)


def test_what_the_scheduler_knows_is_shown_where_there_is_room() -> None:
    """It may be waiting for something that is no matter of room."""
    said = evolve(job("a"), status=JobStatus(waiting="Its node was lost."))
    assert "Its node was lost." == waiting(said, ONE_USED, 0)
    assert "" == waiting(running("a", ("org-1", 0, 1)), ONE_USED, 0)


def test_a_snapshot_is_searched_once_per_ask() -> None:
    """A thousand followers of one waiting job look every second."""
    made: list[int] = []

    def make() -> str:
        made.append(1)
        return "text"

    fleet = fold([node("org-1")], [])
    assert ("text", "text", 1) == (fleet.remembered("a", make), fleet.remembered("a", make), len(made))


def test_of_a_gangs_agents_the_greatest_time_counts() -> None:
    """The biller takes it, so status does."""
    gang = running("a", ("org-1", 0, 1), ("org-2", 0, 1))
    records = [node("org-1", ran={"a/1": Span(5)}), node("org-2", ran={"a/1": Span(9)})]
    fleet = fold(records, [gang])
    (run,) = gang.status.runs
    assert Span(9) == fleet.ran(run)
    assert Span(7) == fleet.ran(evolve(run, state=RunState.ENDED, ran=Span(7)))
