"""Cancel is a flag; the scheduler ends the job, once, and says Cancelled only when every process is gone."""

from __future__ import annotations

import pytest

from core.callers import Caller, Role
from core.charges import cost
from core.jobs import cancel, find, listing
from ports.errors import NotFound
from ports.units import Credits
from ports.workloads import ExitKind, JobFilter, Phase, RunState
from runtimes.http.bodies.views import verdict as shown
from tests.simulation.actions import Action
from tests.simulation.stage import Stage

ANN = Caller("ann")


def test_a_job_that_waits_is_cancelled_without_a_run_and_costs_nothing() -> None:
    stage = Stage()
    stage.running(40, gpus=2)
    waits = stage.submitted(8)
    stage.rounds()
    cancel(stage.house, ANN, waits)
    stage.rounds(4)
    status = stage.job(waits).status
    assert (Phase.CANCELLED, "Cancelled", (), Credits(0)) == (status.phase, status.reason, status.runs, status.charged)


@pytest.mark.parametrize(
    ("caller", "who"), [(ANN, "its user"), (Caller("root", Role.ADMIN), "an administrator"), (Caller("ann", Role.ADMIN), "its user")]
)
def test_a_cancel_says_who_asked_for_it_and_names_nobody(caller: Caller, who: str) -> None:
    """Whose job an operator has ended would look for a mistake of his own; and it is for the operator to say who he is."""
    stage = Stage()
    runs = stage.running()
    cancel(stage.house, caller, runs)
    assert f"Its end was asked for by {who};" in shown(stage.job(runs))[1]
    stage.rounds(3)
    stage.machines["n0"].work(0, 1)
    stage.rounds(3)
    stage.uploaded(runs)
    stage.rounds(3)
    assert f"Cancelled by {who}." == stage.job(runs).status.message
    assert "root" not in str(stage.job(runs))
    other = stage.submitted(40, gpus=2)
    assert Phase.PENDING == stage.phase(other)
    cancel(stage.house, caller, other)
    stage.rounds(3)
    assert f"Cancelled by {who} before it started." == stage.job(other).status.message


def test_a_running_job_is_cancelled_only_when_its_processes_are_gone() -> None:
    """A user who sees Cancelled may start the next one on the same files."""
    stage = Stage()
    job = stage.running()
    cancel(stage.house, ANN, job)
    stage.rounds(3)
    assert Phase.RUNNING == stage.phase(job)
    stage.machines["n0"].work(0, 1)
    stage.rounds(2)
    stage.uploaded(job)
    stage.rounds(3)
    status = stage.job(job).status
    assert Phase.CANCELLED == status.phase
    assert status.run is not None
    assert status.run.exit is not None
    assert ExitKind.KILLED is status.run.exit.kind
    assert cost(status.run.price, status.run.ran) == status.charged


def test_a_job_that_is_being_prepared_is_not_cancelled_before_its_agent_has_let_go() -> None:
    """Its environment is being built on a GPU's node: VRAM is free when the agent says so, not when we would like."""
    stage = Stage()
    job = stage.submitted()
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.term.round()  # booked, and prepare is on its way
    stage.term.deliver("n0")  # the agent has it, and has not reported it
    cancel(stage.house, ANN, job)
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.term.round()
    assert Phase.ALLOCATED == stage.phase(job)
    stage.rounds(6)
    assert Phase.CANCELLED == stage.phase(job)
    assert {} == stage.machines["n0"].runs


def test_a_job_whose_agent_never_heard_of_it_is_cancelled_and_can_not_come_later() -> None:
    """The prepare was lost; the agent answers the kill with that it knows nothing, and will know nothing."""
    stage = Stage()
    job = stage.submitted()
    stage._watch(Action("watch"))
    stage.term.events(10)
    stage.term.round()
    lost = list(stage.term.lines["n0"].outbox)
    stage.term.lines["n0"].outbox.clear()
    cancel(stage.house, ANN, job)
    stage.rounds(6)
    assert Phase.CANCELLED == stage.phase(job)
    answers = stage.machines["n0"].command(stage.term.epoch, lost)
    assert [False] == [answer.ok for answer in answers]


def test_a_function_that_returned_before_the_kill_arrived_is_completed() -> None:
    """One outcome: what is done is done, and its result is not thrown away."""
    stage = Stage()
    job = stage.running()
    stage.end(job)
    cancel(stage.house, ANN, job)
    stage.uploaded(job)
    stage.rounds(4)
    status = stage.job(job).status
    assert (Phase.COMPLETED, True) == (status.phase, status.result is not None)


def test_cancelling_twice_is_cancelling_once_and_what_has_ended_stays_as_it_ended() -> None:
    stage = Stage()
    job = stage.running()
    first = cancel(stage.house, ANN, job)
    assert first.version == cancel(stage.house, ANN, job).version
    other = stage.running()
    stage.completed(other)
    assert Phase.COMPLETED == cancel(stage.house, ANN, other).status.phase
    assert stage.job(other).status.cancel is None


def test_a_cancel_meets_other_writers_and_is_kept() -> None:
    """Two hundred writers and the scheduler change the same object."""
    stage = Stage()
    job = stage.running()
    real, tries = stage.jobs.replace, []

    def meddled(wanted: object) -> object:
        tries.append(wanted)
        if len(tries) < 4:
            stage._touch(Action("touch", 0, len(tries)))
        return real(wanted)  # type: ignore[arg-type]

    stage.jobs.replace = meddled  # type: ignore[method-assign,assignment]
    cancel(stage.house, ANN, job)
    assert stage.job(job).status.cancel is not None


def test_the_job_of_another_user_does_not_exist() -> None:
    """403 would say that it does."""
    stage = Stage()
    job = stage.submitted()
    for look in (find, cancel):
        with pytest.raises(NotFound):
            look(stage.house, Caller("bob"), job)
        with pytest.raises(NotFound):
            look(stage.house, ANN, "job-none")
    assert stage.job(job).status.cancel is None
    assert job == find(stage.house, Caller("root", Role.ADMIN), job).id


def test_a_list_has_the_callers_jobs_only_whatever_the_filter_says() -> None:
    stage = Stage()
    stage.submitted()
    stage.submitted(caller=Caller("bob"))
    assert ["ann"] == [job.spec.user for job in listing(stage.house, ANN, JobFilter(user="bob")).jobs]
    assert ["bob"] == [job.spec.user for job in listing(stage.house, Caller("root", Role.ADMIN), JobFilter(user="bob")).jobs]
    assert 2 == len(listing(stage.house, Caller("root", Role.ADMIN), JobFilter()).jobs)


def test_a_lost_node_does_not_make_a_cancelled_job_cancelled() -> None:
    """Nobody can say that its processes are gone: it has failed, and its VRAM is in quarantine."""
    stage = Stage()
    job = stage.running()
    stage.machines["n0"].connected = False
    cancel(stage.house, ANN, job)
    stage.rounds(25, ms=5_000)
    status = stage.job(job).status
    assert (Phase.FAILED, ExitKind.RUNNER_LOST.value) == (status.phase, status.reason)
    assert [f"{job}/1"] == stage.quarantined("n0")
    assert RunState.ENDED is status.runs[-1].state
