"""A world in which a test says what happens: one fleet, no drawn faults, everything by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.callers import Caller, Plan
from core.house import Terms
from core.names import upload_key
from core.submit import Submission, Submitted, submit
from ports.credits import ISSUE, user_account
from ports.units import Credits, Mib
from ports.workloads import Ask, BlobRef, Environment, Exit, ExitKind, Job, Phase
from tests.simulation.actions import Action
from tests.simulation.invariants import check
from tests.simulation.processes import Process
from tests.simulation.services import digest
from tests.simulation.world import ARGS, FUNCTION, GB, TERMS, Row, World

ONE_NODE: tuple[Row, ...] = (("n0", "org", "A100", 40 * GB, 2),)
TWO_NODES: tuple[Row, ...] = (*ONE_NODE, ("n1", "org", "A100", 40 * GB, 2))


class Stage(World):
    """started: whether a scheduler runs and knows all machines."""

    def __init__(self, fleet: Sequence[Row] = ONE_NODE, terms: Terms = TERMS, started: bool = True) -> None:
        super().__init__("stage", fleet=fleet, terms=terms)
        self.keys = 0
        if started:
            self._begin()
            self.rounds()

    @property
    def term(self) -> Process:
        assert self.process is not None
        return self.process

    def rounds(self, count: int = 1, ms: int = 0) -> None:
        """Everything does its daily work so often; `ms` pass before each; every invariant holds after each."""
        for _ in range(count):
            self.watch_silence()
            self.clock.ms += ms
            self.watch_silence()
            self._beat(Action("beat"))
            check(self)

    # ------------------------------------------------------------ users

    def user(self, name: str, credits: int = 1000, plan: Plan = Plan.FREE) -> Caller:
        lines = {user_account(name): Credits(credits * 1_000_000), ISSUE: Credits(-credits * 1_000_000)}
        self.money.post(f"grant-{name}", "grant", lines)
        for data in (FUNCTION, ARGS):
            self.blobs.put(upload_key(name, digest(data)), [data])
        return Caller(name, plan=plan)

    def request(self, gb: int = 8, key: str = "", body: str = "body", **ask: Any) -> Submission:
        self.keys += 1
        function, args = (BlobRef(digest(data), len(data)) for data in (FUNCTION, ARGS))
        wanted = Ask(Mib(gb * GB), **ask)
        return Submission("work", wanted, function, args, None, Environment(), None, {}, "3.11.2", "3.1.0", key or f"key-{self.keys}", body)

    def hand_in(self, caller: Caller, request: Submission) -> Submitted:
        """Raises what submit raises."""
        return submit(self.house, caller, request, self.fleet())

    def submitted(self, gb: int = 8, caller: Caller | None = None, **ask: Any) -> str:
        """A new job's id. By ann, who has credits, unless told."""
        return self.hand_in(caller or Caller("ann"), self.request(gb, **ask)).job.id

    # ------------------------------------------------------------ jobs

    def job(self, job_id: str) -> Job:
        found = self.jobs.get(job_id)
        assert found is not None, f"there is no {job_id}"
        return found

    def phase(self, job_id: str) -> Phase:
        return self.job(job_id).status.phase

    def placed(self, job_id: str) -> str:
        """The node of its newest run."""
        run = self.job(job_id).status.run
        assert run is not None
        return run.placement[0].node

    def ready(self, job_id: str) -> None:
        """Its processes are warm, and the scheduler is told."""
        for machine in self.machines.values():
            for index, run in enumerate(tuple(machine.runs.values())):
                if run.id.workload == job_id and run.state == "preparing":
                    machine.work(self._turn(machine.name, index), 0)

    def _turn(self, name: str, index: int) -> int:
        machine = self.machines[name]
        waiting = [run for run in machine.runs.values() if machine._may_work(run)]
        return waiting.index(list(machine.runs.values())[index])

    def running(self, gb: int = 8, caller: Caller | None = None, **ask: Any) -> str:
        """A new job whose user code runs."""
        made = self.submitted(gb, caller, **ask)
        self.rounds(2)
        self.ready(made)
        self.rounds(2)
        assert self.phase(made) is Phase.RUNNING
        return made

    def end(self, job_id: str, kind: ExitKind = ExitKind.RETURNED) -> None:
        """Its user code ends so, on all its machines."""
        for machine in self.machines.values():
            for run in tuple(machine.runs.values()):
                if run.id.workload == job_id and run.state == "running":
                    machine.finish(run.id, Exit(kind))

    def uploaded(self, job_id: str) -> None:
        for machine in self.machines.values():
            for run in machine.runs.values():
                if run.id.workload == job_id and run.state == "gone" and not run.stored:
                    machine._upload(run)

    def completed(self, job_id: str) -> None:
        """From running to its end."""
        self.end(job_id)
        self.uploaded(job_id)
        self.rounds(4)

    # ------------------------------------------------------------ what is booked

    def free(self, node: str, gpu: int = 0) -> int:
        """GB that the ledger offers."""
        found = self.term.scheduler.ledger.view().nodes[node].gpus[gpu]
        return found.free.n // GB

    def quarantined(self, node: str) -> list[str]:
        record = self.records.get(node)
        return [each.run for each in record.status.quarantine] if record is not None else []
