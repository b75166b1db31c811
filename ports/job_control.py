"""The controller library of jobs: typed setters, so that no caller writes a status by hand.

A setter reads the object, decides by the phase table, writes by compare-and-swap, and on a conflict decides anew.
Doing it twice is doing it once. What is not allowed raises IllegalTransition, what is not there NotFound. Time comes
in as a function and the store as a port, so that the same rules hold on every transport.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Protocol

from attrs import evolve, frozen

from ports import lifecycle
from ports.errors import Conflict, IllegalTransition, Invalid, NotFound, Unavailable
from ports.lifecycle import FREE
from ports.selectors import parse_selector
from ports.tariffs import Price
from ports.units import Credits, Instant, Mib, Span
from ports.workloads import (
    CHARGED,
    FUNDED,
    HOLD_VOIDED,
    LOW_BALANCE,
    RESULT_STORED,
    TERMINAL,
    Ask,
    BlobRef,
    ConditionStatus,
    Environment,
    Exit,
    ExitKind,
    Job,
    JobFilter,
    JobSpec,
    JobStatus,
    Phase,
    Placement,
    Result,
    Workloads,
)

TRIES = 20
NO_ARGS = BlobRef(hashlib.sha256(b"").hexdigest(), 0)
NO_ENVIRONMENT = Environment()
NOTHING = Credits(0)
_PAGE = 500


class DismissableWorkloads(Workloads, Protocol):
    """A store whose objects can be asked to go that may still have something to settle."""

    def dismiss(self, job: Job) -> None:
        """At once if it has ended, else when it is settled: until then it reads as a job whose cancel was asked for.

        No error if it is gone, or another one has its id.
        """
        ...


@frozen
class JobControl:
    """now: the time, for records. Every method raises Unavailable when the store does not answer."""

    workloads: DismissableWorkloads
    now: Callable[[], Instant]

    def create_job(
        self,
        job_id: str,
        user_id: str,
        function_ref: BlobRef,
        *,
        args_ref: BlobRef = NO_ARGS,
        code_ref: BlobRef | None = None,
        name: str = "",
        vram: Mib | str = "1GB",
        gpus: int = 1,
        workers: int = 1,
        gpu_model: str | None = None,
        vendor: str | None = None,
        owner: str | None = None,
        exclusive: bool = False,
        plan: str = "free",
        env: Environment = NO_ENVIRONMENT,
        max_runtime: Span | None = None,
        labels: Mapping[str, str] | None = None,
        hold: Credits = NOTHING,
        billed: bool = True,
    ) -> Job:
        """Pending, its funding unknown. name: the id if empty. Raises AlreadyExists, or Invalid."""
        ask = Ask(vram if isinstance(vram, Mib) else Mib.parse(vram), gpus, workers, gpu_model, vendor, owner, exclusive)
        if gpus < 1 or workers < 1:
            raise Invalid("A job needs at least one GPU and one worker.", "gpus", "Give 1 or more.", f"{gpus}, {workers}")
        now = self.now()
        spec = JobSpec(
            user=user_id,
            plan=plan,
            name=name or job_id,
            ask=ask,
            function=function_ref,
            args=args_ref,
            code=code_ref,
            env=env,
            max_runtime=max_runtime,
            labels=dict(labels or {}),
            hold=hold,
            billed=billed,
        )
        status = JobStatus().with_condition(FUNDED, ConditionStatus.UNKNOWN, now, "Authorising")
        return self.workloads.create(Job(job_id, job_id, now, spec, status))

    def get_job(self, job_id: str) -> Job | None:
        return self.workloads.get(job_id)

    def list_jobs(self, label_selector: str = "") -> tuple[Job, ...]:
        """By creation and id. label_selector: "key=value,key2=value2", of the users' own labels. Raises Invalid."""
        which, cursor = JobFilter(labels=parse_selector(label_selector)), ""
        found: list[Job] = []
        while True:
            page = self.workloads.list(which, cursor, _PAGE)
            found += page.jobs
            cursor = page.cursor
            if not cursor:
                return tuple(found)

    def delete_job(self, job_id: str) -> None:
        """As kubectl delete does: a job that has not ended is cancelled first, and goes when it is settled. No error if there is none."""
        job = self.workloads.get(job_id)
        if job is not None:
            self.workloads.dismiss(job)

    def set_job_funded(self, job_id: str, *, funded: bool = True, reason: str = "Held", message: str = "") -> Job:
        """The hold is authorised, or refused."""
        status = ConditionStatus.TRUE if funded else ConditionStatus.FALSE
        return self._job(job_id, lambda job: job.status.with_condition(FUNDED, status, self.now(), reason, message))

    def set_job_cancel_requested(self, job_id: str) -> Job:
        """Its user wants its end. Of no effect on one that has ended."""

        def flagged(job: Job) -> JobStatus:
            done = job.status.cancel is not None or job.status.phase in TERMINAL
            return job.status if done else lifecycle.cancel_asked(job.status, self.now())

        return self._job(job_id, flagged)

    def set_job_allocated(self, job_id: str, placement: Placement, *, epoch: int, price: Price = FREE) -> Job:
        """Booked: the next attempt, from Pending."""

        def allocated(job: Job) -> JobStatus:
            run = job.status.run
            if job.status.phase is Phase.ALLOCATED and run is not None and (run.placement, run.epoch) == (placement, epoch):
                return job.status
            _only(job, Phase.ALLOCATED, Phase.PENDING)
            return lifecycle.allocated(job, placement, epoch, price, self.now())

        return self._job(job_id, allocated)

    def set_job_running(self, job_id: str) -> Job:
        """Go may be given, from Allocated."""

        def running(job: Job) -> JobStatus:
            if job.status.phase is Phase.RUNNING:
                return job.status
            _only(job, Phase.RUNNING, Phase.ALLOCATED)
            return lifecycle.running(job.status, self.now())

        return self._job(job_id, running)

    def set_job_ended(self, job_id: str, exit: Exit, *, wall_seconds: float | None = None) -> Job:
        """Every process of the run is gone, and compute billing stops: Closing, from Allocated or Running.

        wall_seconds: that it ran, rounded to milliseconds; None: as last written.
        """

        def ended(job: Job) -> JobStatus:
            if job.status.phase is Phase.CLOSING:
                return job.status
            _only(job, Phase.CLOSING, Phase.ALLOCATED, Phase.RUNNING)
            return lifecycle.ended(job, exit, _ran(wall_seconds), self.now())

        return self._job(job_id, ended)

    def set_job_result_stored(self, job_id: str, result: Result | None = None, *, reason: str = "Stored") -> Job:
        """The result is in the blob store, or there is nothing to store."""

        def stored(job: Job) -> JobStatus:
            marked = job.status.with_condition(RESULT_STORED, ConditionStatus.TRUE, self.now(), reason)
            return marked if result is None else evolve(marked, result=result)

        return self._job(job_id, stored)

    def set_job_charged(self, job_id: str, charged: Credits, *, refused: str = "") -> Job:
        """The final charge is posted. refused: why it was not."""

        def marked(job: Job) -> JobStatus:
            status = ConditionStatus.FALSE if refused else ConditionStatus.TRUE
            told = job.status.with_condition(CHARGED, status, self.now(), "Refused" if refused else "Posted", refused)
            return evolve(told, charged=charged)

        return self._job(job_id, marked)

    def set_job_billed(self, job_id: str) -> Job:
        """Nothing is held for it any more: its hold is given back."""
        return self._job(job_id, lambda job: job.status.with_condition(HOLD_VOIDED, ConditionStatus.TRUE, self.now(), "Voided"))

    def set_job_low_balance(self, job_id: str, *, low: bool = True) -> Job:
        """The balance is gone: the scheduler will end it."""
        status = ConditionStatus.TRUE if low else ConditionStatus.FALSE
        return self._job(job_id, lambda job: job.status.with_condition(LOW_BALANCE, status, self.now(), "BalanceExhausted" if low else ""))

    def set_job_completed(self, job_id: str, *, wall_seconds: float | None = None) -> Job:
        """From Running by way of Closing, or from Closing with that outcome. wall_seconds: that it ran."""
        return self._settled(job_id, Phase.COMPLETED, ExitKind.RETURNED, "Returned", "", wall_seconds)

    def set_job_failed(self, job_id: str, *, reason: str = "Failed", message: str = "", wall_seconds: float | None = None) -> Job:
        """From any phase but the terminal ones, by way of Closing."""
        return self._settled(job_id, Phase.FAILED, ExitKind.EXITED, reason, message, wall_seconds)

    def set_job_cancelled(self, job_id: str, *, message: str = "", wall_seconds: float | None = None) -> Job:
        """Likewise."""
        return self._settled(job_id, Phase.CANCELLED, ExitKind.KILLED, "Cancelled", message, wall_seconds)

    def _settled(self, job_id: str, outcome: Phase, kind: ExitKind, reason: str, message: str, wall_seconds: float | None) -> Job:
        def closing(job: Job) -> JobStatus:
            if job.status.phase in (Phase.CLOSING, outcome):
                return job.status
            if outcome is Phase.COMPLETED:
                _only(job, outcome, Phase.RUNNING)
            _only(job, outcome, Phase.PENDING, Phase.ALLOCATED, Phase.RUNNING)
            status = job.status
            if status.phase is not Phase.PENDING:
                how = Exit(kind if status.phase is Phase.RUNNING else ExitKind.NEVER_RAN, message=message)
                status = lifecycle.ended(job, how, _ran(wall_seconds), self.now())
            return lifecycle.closing(status, outcome, reason, message)

        def closed(job: Job) -> JobStatus:
            if job.status.phase is outcome:
                return job.status
            if job.status.phase is not Phase.CLOSING or job.status.outcome is not outcome:
                raise IllegalTransition(job.id, f"{job.status.phase} to {job.status.outcome or 'nothing'}", str(outcome))
            return evolve(job.status, phase=outcome)

        self._job(job_id, closing)
        return self._job(job_id, closed)

    def _job(self, job_id: str, decide: Callable[[Job], JobStatus]) -> Job:
        for _ in range(TRIES):
            job = self.workloads.get(job_id)
            if job is None:
                raise NotFound(f"There is no job {job_id!r:.80}.", "job_id", "Create it first.")
            status = decide(job)
            if status == job.status:
                return job
            try:
                return self.workloads.replace(evolve(job, status=status))
            except Conflict:
                continue
        raise Unavailable("the job store", f"others write {job_id} all the time", 1)


def _only(job: Job, wanted: Phase, *allowed: Phase) -> None:
    if job.status.phase not in allowed:
        raise IllegalTransition(job.id, str(job.status.phase), str(wanted))


def _ran(wall_seconds: float | None) -> Span:
    """Rounded to the nearest millisecond."""
    return Span(0) if wall_seconds is None else Span(max(0, round(wall_seconds * 1000)))
