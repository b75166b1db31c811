"""The scheduler: it alone books, launches, releases and moves phases.

Level-triggered: what changed is marked, `round` looks at each marked job and takes its next step until there is
none left, then offers the queue its turns. Every write is a compare-and-swap on the object, made before anything
is launched by it; a conflict means to look again. Threads, sockets and retries are the runtime's business: it calls
these methods one after another, and carries out what `send` and `settle` are given.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import evolve, frozen

from core import lifecycle, next_step
from core.commands import prepare_command
from core.house import House
from core.ledger import NoRoom, VramLedger
from core.next_step import NodeView
from core.owners import Pool
from core.pricing import price
from core.queue import Closed, Queue, Turn, narrowed
from core.roster import Roster
from ports.cluster import Answer, ClusterNode, Command, Forget, Go, Hello, Kill, Prepare, Reports
from ports.errors import Conflict
from ports.units import Span
from ports.workloads import (
    TERMINAL,
    Ask,
    Changes,
    Job,
    JobFilter,
    JobStatus,
    Phase,
    Placement,
    Run,
    RunId,
    RunState,
)

UNFINISHED = JobFilter(phases=frozenset(set(Phase) - TERMINAL))


@frozen
class Pace:
    """resend: an unanswered command is repeated after it. specs: how often operators' settings are read. ran: how
    often running times are written to the node records."""

    resend: Span = Span(5_000)
    specs: Span = Span(2_000)
    ran: Span = Span(10_000)
    retry: Span = Span(2_000)


class Scheduler:
    """One term of scheduling. Not thread-safe."""

    def __init__(
        self,
        house: House,
        epoch: int,
        send: Callable[[str, Command], None],
        settle: Callable[[Job], None],
        pace: Pace = Pace(),
    ) -> None:
        self.epoch = epoch
        self._house, self._send, self._settle, self._pace = house, send, settle, pace
        self.ledger = VramLedger()
        self.roster = Roster(house.nodes, self.ledger, pace.ran)
        self.queue = Queue()
        self._jobs: dict[str, Job] = {}
        self._dirty: dict[str, None] = {}
        self._sent: dict[tuple[str, RunId, type], Span] = {}
        self._settling: dict[str, Span] = {}
        self._specs_read = Span(0)
        self._queue_moved = True

    # ------------------------------------------------------------ what the runtime tells

    def boot(self) -> None:
        """Take over: records first, then every unfinished object; bookings are adopted from what is stored."""
        now = self._house.clock.elapsed()
        self.roster.load(now)
        cursor = ""
        while True:
            page = self._house.workloads.list(UNFINISHED, cursor, 500)
            for job in page.jobs:
                self._take(job)
            cursor = page.cursor
            if not cursor:
                return

    def changed(self, changes: Changes) -> None:
        """Objects as the store says they are now."""
        for job in changes.jobs:
            known = self._jobs.get(job.id)
            if known is None or known.version != job.version:
                self._take(job)
        gone = changes.deleted
        if changes.whole:
            gone = tuple(self._jobs.keys() - {job.id for job in changes.jobs})
        for job_id in gone:
            self._drop(job_id)

    def node_up(self, seen: ClusterNode, hello: Hello, address: str) -> None:
        node = self.roster.up(seen, hello, address, self.epoch)
        known = {str(run) for run in node.reports}
        for each in node.record.status.quarantine:
            if each.run not in known:
                self.roster.lift(node, each.run)
        self._forget_sent(seen.name)
        self._mark_node(seen.name)
        for run in tuple(node.reports):
            self._check_orphan(seen.name, run)
        self._queue_moved = True

    def node_down(self, name: str, why: str) -> None:
        self.roster.down(name, why, self._house.clock.elapsed())
        self._forget_sent(name)
        self._mark_node(name)

    def reported(self, name: str, reports: Reports) -> None:
        self.roster.reported(name, reports.reports, reports.ran)
        for report in reports.reports:
            job = self._jobs.get(report.run.workload)
            if job is None or job.status.run is None or job.status.run.id != report.run or job.status.run.state is RunState.ENDED:
                self._check_orphan(name, report.run)
            if job is not None:
                self._dirty[job.id] = None

    def answered(self, name: str, command: Command, answer: Answer) -> None:
        """A refused prepare ends the attempt; any other refusal is looked at again after a while."""
        if answer.ok or not isinstance(command, Prepare):
            return
        job = self._jobs.get(command.run.workload)
        if job is None or job.status.run is None or job.status.run.id != command.run or job.status.phase is not Phase.ALLOCATED:
            return
        step = next_step.Requeue(lifecycle.never_ran(answer.error), f"{name} refused it: {answer.error}")
        self._attempt(job, lambda: self._requeue(job, step))

    def settled(self, job_id: str) -> None:
        """The runtime has done with settling that job, well or badly; what is stored says which."""
        if self._jobs.get(job_id) is not None:
            self._settling[job_id] = self._house.clock.elapsed()
            self._refresh(job_id)

    # ------------------------------------------------------------ a round

    def round(self) -> None:
        """Take every next step that can be taken now. Raises Unavailable; what is not done stays marked."""
        now = self._house.clock.elapsed()
        if now - self._specs_read >= self._pace.specs:
            self._specs_read = now
            for name in self.roster.refresh_specs():
                self._mark_node(name)
                self._queue_moved = True
            self._mark_waiting(now)
        self._advance_all()
        if self._queue_moved and len(self.queue):
            self._queue_moved = False
            self.queue.round(self._place)
            self._advance_all()
        self.roster.save_all(now)

    def _advance_all(self) -> None:
        while self._dirty:
            job_id = next(iter(self._dirty))
            job = self._jobs.get(job_id)
            if job is not None:
                self._attempt(job, partial(self._advance, job))
            if self._jobs.get(job_id) is job:  # else it was written or read anew: its next step is due at once
                self._dirty.pop(job_id, None)

    def _attempt(self, job: Job, act: Callable[[], object]) -> None:
        try:
            act()
        except Conflict:
            self._refresh(job.id)

    def _advance(self, job: Job) -> None:
        step = next_step.next_step(job, self._views(job), self._house.clock.now(), self._house.terms)
        match step:
            case next_step.Wait():
                pass
            case next_step.Fund() | next_step.Close():
                self._hand_over(job)
            case next_step.Queue():
                self.queue.put(job)
                self._queue_moved = True
            case next_step.CloseUnplaced(outcome, reason, message):
                self.queue.drop(job.id)
                self._write(job, lifecycle.closing(job.status, outcome, reason, message))
            case next_step.Prepare(nodes):
                self._prepare(job, nodes)
            case next_step.Start():
                self._start(job)
            case next_step.Go(nodes):
                self._go(job, nodes)
            case next_step.Kill(nodes):
                for name in nodes:
                    self._tell(name, Kill(_run_id(job)))
            case next_step.End():
                self._end(job, step)
            case next_step.Requeue():
                self._requeue(job, step)
            case next_step.Stored(report):
                self._write(job, lifecycle.stored(job.status, report, self._house.clock.now()))
            case next_step.NothingToStore(reason):
                self._write(job, lifecycle.nothing_to_store(job.status, reason, self._house.clock.now()))

    # ------------------------------------------------------------ steps

    def _place(self, job: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        ask, run = job.spec.ask, RunId(job.id, job.status.attempt + 1)
        found: Placement | NoRoom | None = None
        for pool in pools:
            for narrow in narrowed(ask, pool, closed, self.roster.classes()) if closed else (ask,):
                found = self.ledger.reserve(run, narrow, (pool,))
                if not isinstance(found, NoRoom):
                    return self._book(job, found)
        return self._no_room(job, ask, pools, bool(closed))

    def _book(self, job: Job, placement: Placement) -> Turn:
        """Written before anything is launched; a booking that could not be written is none."""
        run = RunId(job.id, job.status.attempt + 1)
        try:
            now = self._house.clock.now()
            given = price(placement, self.roster, self._house.tariffs.in_force(now), job.spec.user) if job.spec.billed else lifecycle.FREE
            self._write(job, lifecycle.allocated(job, placement, self.epoch, given, now))
        except Conflict:
            self.ledger.release(run)
            self._refresh(job.id)
        except BaseException:
            self.ledger.release(run)
            raise
        return Turn.PLACED

    def _no_room(self, job: Job, ask: Ask, pools: tuple[Pool, ...], closed: bool) -> Turn:
        if self.ledger.largest(ask, pools) < ask.mib:
            self._say_waiting(job, "No node that is here now could hold it; it waits for one.")
            return Turn.ASIDE
        answer = self.ledger.reserve(RunId(job.id, job.status.attempt + 1), ask, pools) if not closed else None
        text = answer.reason if isinstance(answer, NoRoom) else "Waits for its turn: earlier jobs wait for the same GPUs."
        self._say_waiting(job, text)
        return Turn.WAITS

    def _say_waiting(self, job: Job, text: str) -> None:
        if job.status.waiting != text:
            self._attempt(job, lambda: self._write(job, evolve(job.status, waiting=text)))

    def _prepare(self, job: Job, nodes: tuple[str, ...]) -> None:
        for name in nodes:
            if self._due(name, _run_id(job), Prepare):
                self._tell(name, prepare_command(self._house, job, name, self.roster))

    def _start(self, job: Job) -> None:
        run = job.status.run
        written = self._write(job, lifecycle.running(job.status, self._house.clock.now()))
        for name in dict.fromkeys(slot.node for slot in run.placement) if run is not None else ():
            self._tell(name, Go(_run_id(written), job.spec.max_runtime))

    def _go(self, job: Job, nodes: tuple[str, ...]) -> None:
        for name in nodes:
            self._tell(name, Go(_run_id(job), job.spec.max_runtime))

    def _end(self, job: Job, step: next_step.End) -> None:
        run, now = job.status.run, self._house.clock.now()
        if run is None:
            return
        if step.lost:
            self.roster.quarantine(run)
        status = lifecycle.ended(job, step.exit, step.ran, now)
        report = next((view.report for view in self._views(job).values() if view.report is not None and view.report.stored), None)
        if report is not None:
            status = lifecycle.stored(status, report, now)
        self._write(job, status)
        self._release(run, step.lost)

    def _requeue(self, job: Job, step: next_step.Requeue) -> None:
        run = job.status.run
        if run is None:
            return
        if step.lost:
            self.roster.quarantine(run)
        self._write(job, lifecycle.requeued(job, step.exit, self._house.clock.now(), step.why))
        self._release(run, step.lost)

    def _release(self, run: Run, lost: bool) -> None:
        if not lost:
            self.ledger.release(run.id)
        self._queue_moved = True
        for name in dict.fromkeys(slot.node for slot in run.placement):
            self._check_orphan(name, run.id)

    def _hand_over(self, job: Job) -> None:
        """To the runtime's pool: nothing of it may hold up a placement."""
        last, now = self._settling.get(job.id), self._house.clock.elapsed()
        if last is None or now - last >= self._pace.retry:
            self._settling[job.id] = Span(1 << 60)  # until `settled`
            self._settle(job)

    # ------------------------------------------------------------ orphans

    def _check_orphan(self, name: str, run: RunId, job: Job | None = None) -> None:
        """A run that an agent reports: it lives, it is being settled, it may be forgotten, or it must be killed.

        job: its object where it was read after the report; else it is read here.
        """
        node = self.roster.get(name)
        report = node.reports.get(run) if node is not None else None
        if node is None or report is None:
            return
        job = job or self._jobs.get(run.workload) or self._house.workloads.get(run.workload)
        mine = next((each for each in job.status.runs if each.id == run), None) if job is not None else None
        if job is not None and mine is not None and mine.state is not RunState.ENDED:
            return
        if report.exit is None and str(report.state) != "gone":
            self._tell(name, Kill(run))
            return
        self.roster.lift(node, str(run))
        self._queue_moved = True
        if job is None or job.status.phase in TERMINAL or job.status.run is None or job.status.run.id != run:
            self._tell(name, Forget(run))
            node.reports.pop(run, None)
            node.ran.pop(run, None)

    # ------------------------------------------------------------ bookkeeping

    def _write(self, job: Job, status: JobStatus) -> Job:
        written = self._house.workloads.replace(evolve(job, status=status))
        self._jobs[job.id] = written
        self._dirty[job.id] = None
        return written

    def _take(self, job: Job) -> None:
        """Note an object as it is stored now."""
        if job.status.phase in TERMINAL:
            self._drop(job.id)
            for each in job.status.runs:
                for name in dict.fromkeys(slot.node for slot in each.placement):
                    self._check_orphan(name, each.id, job)
            return
        self._jobs[job.id] = job
        run = job.status.run
        if run is not None and run.state is not RunState.ENDED and self.ledger.placement(run.id) is None:
            self._adopt(job, run)
        if job.status.phase is not Phase.PENDING:
            self.queue.drop(job.id)
        self._dirty[job.id] = None

    def _adopt(self, job: Job, run: Run) -> None:
        """A booking that this ledger does not know: of an earlier term. Honoured if exactly those slots can be booked."""
        if self.ledger.adopt(run.id, run.placement) or run.state is RunState.RUNNING:
            return
        why = "Its booking was made by an earlier term, and its slots are taken."
        self._attempt(job, lambda: self._requeue(job, next_step.Requeue(lifecycle.never_ran(why), why)))

    def _refresh(self, job_id: str) -> None:
        """Somebody else wrote: look again, decide again."""
        fresh = self._house.workloads.get(job_id)
        if fresh is None:
            self._drop(job_id)
        else:
            self._take(fresh)

    def _drop(self, job_id: str) -> None:
        job = self._jobs.pop(job_id, None)
        self.queue.drop(job_id)
        self._dirty.pop(job_id, None)
        self._settling.pop(job_id, None)
        run = job.status.run if job is not None else None
        if run is not None:
            for key in [key for key in self._sent if key[1] == run.id]:
                del self._sent[key]
            if run.state is not RunState.ENDED:
                self.ledger.release(run.id)
                self._queue_moved = True

    def _views(self, job: Job) -> dict[str, NodeView]:
        run = job.status.run
        if run is None:
            return {}
        now = self._house.clock.elapsed()
        return {name: self.roster.view(name, run.id, now) for name in dict.fromkeys(slot.node for slot in run.placement)}

    def _tell(self, name: str, command: Command) -> None:
        if self._due(name, command.run, type(command)):
            self._sent[name, command.run, type(command)] = self._house.clock.elapsed()
            self._send(name, command)

    def _due(self, name: str, run: RunId, kind: type) -> bool:
        last = self._sent.get((name, run, kind))
        return last is None or self._house.clock.elapsed() - last >= self._pace.resend

    def _forget_sent(self, name: str) -> None:
        for key in [key for key in self._sent if key[0] == name]:
            del self._sent[key]

    def _mark_node(self, name: str) -> None:
        for job in self._jobs.values():
            run = job.status.run
            if run is not None and any(slot.node == name for slot in run.placement):
                self._dirty[job.id] = None

    def _mark_waiting(self, now: Span) -> None:
        """What time alone moves on: silent nodes, unanswered commands, half-done submits, settling that failed."""
        for job in self._jobs.values():
            if job.status.phase is not Phase.PENDING or job.id not in self.queue:
                self._dirty[job.id] = None


def _run_id(job: Job) -> RunId:
    run = job.status.run
    if run is None:
        raise ValueError(f"{job.id} has no run")
    return run.id
