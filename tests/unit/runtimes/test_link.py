"""The line to an agent: what it tells the scheduler of the answers to its commands."""

from __future__ import annotations

from queue import SimpleQueue

from ports.cluster import Forget, Go, Kill
from ports.nodes import Gpu
from ports.units import Mib, Span
from ports.workloads import RunId
from runtimes.batch.events import Answered, Event, NodeUp
from runtimes.batch.link import NodeLink
from tests.memory.blobs import MemoryBlobs
from tests.simulation.lone import OneMachine
from tests.simulation.machines import Machine, Truth
from tests.simulation.services import SimClock

RUN = RunId("job", 1)


def test_refusals_unknown_runs_and_what_was_forgotten_are_told_and_nothing_else_is_needed() -> None:
    """A kill that the agent knows nothing about proves that the run can't come; a forget that was heard ends the matter."""
    clock = SimClock()
    machine = Machine("n1", "org", (Gpu(0, "A100", "nvidia", Mib(100)),), clock, MemoryBlobs(clock), Truth())
    told: SimpleQueue[Event] = SimpleQueue()
    link = NodeLink(machine.seen(), OneMachine(machine), 7, told.put, Span(10))
    link.start()
    try:
        while not isinstance(told.get(), NodeUp):
            pass
        for command in (Kill(RUN), Go(RUN), Forget(RUN)):
            link.send(command)
        answers: list[Answered] = []
        while len(answers) < 3:
            event = told.get()
            if isinstance(event, Answered):
                answers.append(event)
        assert [(Kill, True, False), (Go, False, False), (Forget, True, False)] == [
            (type(each.command), each.answer.ok, each.answer.known) for each in answers
        ]
    finally:
        link.stop()
        link.join(5)
