"""A term of scheduling as a process holds it: what it does if it is not the newest."""

from __future__ import annotations

from attrs import evolve

from runtimes.batch.term import Term
from tests.memory.epochs import MemoryEpochs
from tests.simulation.lone import OneMachine
from tests.simulation.stage import Stage


def test_a_term_below_one_that_records_know_ends_and_says_which() -> None:
    """The number of the last term was lost (a database that was restored, an object that was deleted); its records were not."""
    stage = Stage(started=False)
    stage._begin()
    stage.rounds()
    record = stage.records.get("n0")
    assert record is not None
    stage.records.put_status(evolve(record, status=evolve(record.status, epoch=7)))
    lost = MemoryEpochs()
    first = Term(stage.house, OneMachine(stage.machines["n0"]), lost, lambda: False)
    first.run()
    assert 7 == first.newest
    second = Term(stage.house, OneMachine(stage.machines["n0"]), lost, lambda: False, first.newest)
    second.run()
    assert (0, 8) == (second.newest, lost.read())
