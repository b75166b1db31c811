"""The scheduler: it alone books, launches, releases and moves phases.

Level-triggered: what changed is marked, `round` looks at each marked job and takes its next step until there is
none left, then offers the queue its turns. Every write is a compare-and-swap on the object, made before anything
is launched by it; a conflict, or no answer, means to read the object again before anything else is done with it.
What comes in from outside only marks: nothing is lost by an error there. Threads, sockets and retries are the
runtime's business: it calls these methods one after another, and carries out what `send` and `settle` are given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial

from attrs import evolve, frozen

from core import lifecycle, next_step
from core.bookings import Bookings
from core.commands import prepare_command, renew_command
from core.each_job import each_page
from core.exposure import NOTHING, WAITS, Standing, said
from core.house import House
from core.ledger import NoRoom, VramLedger
from core.next_step import NodeView
from core.orphans import Orphans
from core.owners import Pool
from core.policies import policy
from core.pricing import price
from core.queue import Closed, Queue, Turn, shape_of
from core.roster import Roster
from core.talks import PATIENCE, Talks
from core.turns import reserve_in_turn
from ports.budgets import bound
from ports.cluster import Answer, ClusterNode, Command, Forget, Go, Hello, Kill, Prepare, Reports, ReportState
from ports.errors import Conflict, NotFound, Refused, StaleEpoch, Unavailable, Unreadable
from ports.units import Span
from ports.workloads import RESULT_STORED, TERMINAL, Changes, Job, JobFilter, JobStatus, Phase, Placement, Run, RunId, RunState

UNFINISHED = JobFilter(phases=frozenset(set(Phase) - TERMINAL))
TROUBLES = 3  # jobs that may meet a service that does not answer until a round is cut short


@frozen
class Pace:
    """resend: an unanswered command is repeated after it. specs: how often operators' settings are read. ran: how
    often running times are written to the node records. retry: of settling that failed."""

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
        self.ledger = VramLedger(policy(house.terms.placement))
        self.roster = Roster(house.nodes, self.ledger, epoch, pace.ran, house.terms.lost_after)
        self.queue = Queue()
        self._talks = Talks(pace.resend)
        self._bookings = Bookings(self.ledger, self.roster, self._talks)
        self._orphans = Orphans(self.roster, self._talks, self._tell, self._stored_now, house.clock.elapsed)
        self._jobs: dict[str, Job] = {}
        self._dirty: dict[str, None] = {}
        self._stale: dict[str, None] = {}  # what is stored may be another than what is known: read it first
        self._past: dict[str, set[str]] = {}  # versions of an object that are older than the known one
        self._settling: dict[str, Span] = {}
        self._troubles: list[Unavailable] = []
        self._specs_read = Span(0)
        self._queue_moved = True
        self._standing = NOTHING

    # ------------------------------------------------------------ what the runtime tells

    def boot(self) -> None:
        """Take over: records first, then every unfinished object; bookings are adopted from what is stored."""
        self.roster.load()
        for page in each_page(self._house, UNFINISHED):
            for job in page.jobs:
                self._take(job)
            for job_id in page.unreadable:
                self._suspect(job_id)  # as long as it can't be read: what runs by it is left alone

    def changed(self, changes: Changes) -> None:
        """Objects as the store said that they were, which may be a while ago: only what can't be old news is believed."""
        for job in changes.jobs:
            known = self._jobs.get(job.id)
            if known is not None and (known.version == job.version or job.version in self._past.get(job.id, ())):
                continue
            first = known is None or not known.status.runs
            if job.id not in self._stale and first and not job.status.runs and (known is None or known.uid == job.uid):
                self._take(job)
            elif known is not None or job.status.phase not in TERMINAL:
                self._suspect(job.id)
        for job_id in changes.unreadable:
            self._suspect(job_id)
        gone = changes.deleted
        if changes.whole:
            gone = tuple(self._jobs.keys() - {job.id for job in changes.jobs})
        for job_id in sorted(gone):
            if job_id in self._jobs:
                self._suspect(job_id)

    def stands(self, standing: Standing) -> None:
        """What the newest billing round said of who may start more."""
        if standing.exposed != self._standing.exposed:
            self._queue_moved = True
        self._standing = standing

    def node_up(self, seen: ClusterNode, hello: Hello, address: str) -> None:
        runs = tuple(each for each in hello.runs if not self._is_anothers(seen.name, each.run, each.uid))
        node = self.roster.up(seen, evolve(hello, runs=runs), address)
        self._talks.again(seen.name)
        self._mark_node(seen.name)
        for run in (*node.reports, *self.roster.quarantined(seen.name), *self.roster.untold(seen.name)):
            self._orphans.add(seen.name, run)
        self._queue_moved = True

    def node_down(self, name: str, why: str) -> None:
        self.roster.down(name, why)
        self._mark_node(name)

    def listed(self, names: Collection[str]) -> None:
        """The cluster answered: these nodes are there, and no others."""
        self.roster.listed(names)

    def reported(self, name: str, reports: Reports) -> None:
        told = tuple(each for each in reports.reports if not self._is_anothers(name, each.run, each.uid))
        ran = {run: span for run, span in reports.ran.items() if not self._is_anothers(name, run, reports.uids.get(run, ""))}
        self.roster.reported(name, told, ran)
        for report in told:
            job = self._jobs.get(report.run.workload)
            run = job.status.run if job is not None else None
            if run is None or run.id != report.run or run.state is RunState.ENDED:
                self._orphans.add(name, report.run)
            if job is not None:
                self._dirty[job.id] = None

    def _is_anothers(self, name: str, run: RunId, uid: str) -> bool:
        """Whether that is late news of an ended workload whose id was used again: a run is booked only once nothing is known
        any more of an earlier one of its name, so on the nodes of the booking there is no other."""
        job = self._jobs.get(run.workload)
        booked = job.status.run if job is not None else None
        if job is None or booked is None or booked.id != run or uid in ("", job.uid):
            return False
        return any(slot.node == name for slot in booked.placement)

    def answered(self, name: str, command: Command, answer: Answer) -> None:
        """The runtime tells every refusal, every answer of an agent that does not know the run, and every answer to Forget."""
        self._talks.heard(name, command, answer)
        if isinstance(command, Forget) and answer.ok:
            self._orphans.forgotten(name, command.run)
        elif isinstance(command, Kill) and not answer.known:
            self._orphans.add(name, command.run)
        self._dirty[command.run.workload] = None

    def settled(self, job_id: str) -> None:
        """The runtime has done with settling that job, well or badly; what is stored says which."""
        if job_id in self._jobs:
            self._settling[job_id] = self._house.clock.elapsed()
            self._suspect(job_id)

    @property
    def unfinished(self) -> int:
        """How many jobs it looks after."""
        return len(self._jobs)

    def user(self, job_id: str) -> str:
        """Whose job that is, "" if it is none of those."""
        job = self._jobs.get(job_id)
        return job.spec.user if job is not None else ""

    # ------------------------------------------------------------ a round

    def round(self) -> None:
        """Take every next step that can be taken now. Raises Unavailable (what is not done stays marked), StaleEpoch."""
        now, self._troubles = self._house.clock.elapsed(), []
        for name in self.roster.pass_time(now):
            self._mark_node(name)
            self._queue_moved = True
        if now - self._specs_read >= self._pace.specs:
            self._specs_read = now
            for name in sorted(self.roster.refresh_specs()):
                self._mark_node(name)
                self._queue_moved = True
            self._mark_waiting()
        self._advance_all()
        self._guard(self._look_for_orphans)
        self.roster.save_all(now)  # before anything new is booked: what it says of a node must be known to a successor
        if self._queue_moved and len(self.queue):
            self._queue_moved = False
            if not self._guard(lambda: self.queue.round(self._place, self.roster.classes())):
                self._queue_moved = True
            self._advance_all()
        if self._troubles:
            raise self._troubles[0]

    def _guard(self, act: Callable[[], object]) -> bool:
        """Whether it could be done. One thing that can't be done now holds up no other, a service that is away cuts the round short."""
        try:
            act()
        except Unreadable:
            return False  # that object alone, and no service is away
        except Unavailable as error:
            self._troubles.append(error)
            if len(self._troubles) >= TROUBLES:
                raise
            return False
        return True

    def _advance_all(self) -> None:
        again: dict[str, None] = {}
        try:
            while self._dirty:
                job_id = next(iter(self._dirty))
                again[job_id] = self._dirty.pop(job_id)
                if self._guard(partial(self._advance, job_id)):
                    del again[job_id]
                else:
                    self._dirty.pop(job_id, None)  # in the next round
        finally:
            self._dirty.update(again)

    def _advance(self, job_id: str) -> None:
        if job_id in self._stale:
            try:
                self._read_again(job_id)
            except Unreadable:
                self.queue.drop(job_id)  # nobody waits behind what may never be placed
                raise
        job = self._jobs.get(job_id)
        if job is None:
            return
        try:
            self._take_step(job)
        except Conflict:
            self._dirty[job_id] = None  # and it is stale: read it, decide anew

    def _take_step(self, job: Job) -> None:
        step = next_step.next_step(job, self._views(job), self._house.clock.now(), self._house.terms)
        match step:
            case next_step.Wait():
                self._say_setup(job)
                self._say_pending(job)
            case next_step.Fund() | next_step.Close():
                self._hand_over(job)
            case next_step.Queue():
                self.queue.put(job)
                self._queue_moved = True
            case next_step.CloseUnplaced(outcome, reason, message):
                self.queue.drop(job.id)
                self._queue_moved = True  # who waited behind it may be next
                self._write(job, lifecycle.closing(job.status, outcome, reason, message))
            case next_step.Prepare(nodes):
                self._prepare(job, nodes)
            case next_step.Start():
                self._start(job)
            case next_step.Go(nodes):
                self._tell_all(nodes, Go(_run_id(job), bound(job)))
            case next_step.Kill(nodes):
                self._tell_all(nodes, Kill(_run_id(job)))
            case next_step.Renew(nodes):
                self._tell_all(nodes, renew_command(self._house, job))
                self._say_pending(job)
            case next_step.End():
                self._end(job, step)
            case next_step.Requeue(exit_, why, lost):
                self._quarantine(job, lost)
                self._write(job, lifecycle.requeued(job, exit_, self._house.clock.now(), why))
            case next_step.Stored(report):
                self._write(job, lifecycle.stored(job.status, report, self._house.clock.now()))
            case next_step.NothingToStore(reason):
                self._write(job, lifecycle.nothing_to_store(job.status, reason, self._house.clock.now()))

    # ------------------------------------------------------------ steps

    def _place(self, job: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        if job.id in self._stale:
            return Turn.WAITS  # it may have been placed already; nobody may take its place meanwhile
        limit = self._house.terms.exposure_limit
        exposed = self._standing.over(job.spec.user, limit) if job.spec.billed else None
        if exposed is not None:
            if not job.status.waiting.startswith(WAITS):  # else each round would say another amount
                self._say_waiting(job, WAITS + said(exposed, limit))
            return Turn.ASIDE
        ask, run = job.spec.ask, RunId(job.id, job.status.attempt + 1)
        if self._orphans.has(run):
            return Turn.WAITS  # it was made anew under an ended one's name, whose run is about to be forgotten
        found = reserve_in_turn(self.ledger, run, ask, pools, closed, self.roster.classes)
        return self._no_room(job, pools, bool(closed)) if found is None else self._book(job, run, found)

    def _book(self, job: Job, run: RunId, placement: Placement) -> Turn:
        """Written before anything is launched; while it is not known whether it was, the booking stands."""
        now = self._house.clock.now()
        try:
            given = price(placement, self.roster, self._house.tariffs.in_force(now), job.spec.user) if job.spec.billed else lifecycle.FREE
            self.roster.begin(run, (slot.node for slot in placement))
        except Refused as error:
            self.ledger.release(run)
            return self._say_waiting(job, str(error))
        except BaseException:
            self.ledger.release(run)
            raise
        self._bookings.reserved(job.id, run, placement)
        try:
            self._write(job, lifecycle.allocated(job, placement, self.epoch, given, now))
        except Conflict:
            self._dirty[job.id] = None
            return Turn.WAITS
        return Turn.PLACED

    def _no_room(self, job: Job, pools: tuple[Pool, ...], closed: bool) -> Turn:
        ask = job.spec.ask
        if self.roster.capacity.largest(ask, shape_of(job).pools) < ask.mib:
            self._say_waiting(job, "No node that is here now could hold it; it waits for one.")
            return Turn.ASIDE
        answer = self.ledger.reserve(RunId(job.id, job.status.attempt + 1), ask, pools) if not closed else None
        text = answer.reason if isinstance(answer, NoRoom) else "Waits for its turn: earlier jobs wait for the same GPUs."
        return self._say_waiting(job, text)

    def _say_waiting(self, job: Job, text: str) -> Turn:
        if job.status.waiting != text:
            try:
                self._write(job, evolve(job.status, waiting=text))
            except Conflict:
                self._dirty[job.id] = None
        return Turn.WAITS

    def _say_setup(self, job: Job) -> None:
        """While its nodes prepare it: what they say of that."""
        if job.status.phase is not Phase.ALLOCATED:
            return
        reports = [view.report for view in self._views(job).values() if view.report is not None]
        told = (each.fetch_error or each.detail for each in reports if each.state is ReportState.PREPARING)
        detail = next(filter(None, told), job.status.message)
        if detail != job.status.message:
            self._write(job, lifecycle.setting_up(job.status, detail))

    def _say_pending(self, job: Job) -> None:
        """While what it left can't be stored: that it waits, and why; told once."""
        if job.status.phase is not Phase.CLOSING or job.status.condition(RESULT_STORED) is not None:
            return
        reports = {name: view.report for name, view in self._views(job).items() if view.report is not None}
        why = next((f"{name}: {report.stored_error}" for name, report in reports.items() if report.stored_error), "")
        if why:
            self._write(job, lifecycle.result_pending(job.status, why, self._house.clock.now()))

    def _prepare(self, job: Job, nodes: tuple[str, ...]) -> None:
        for name in nodes:
            if self._talks.due(name, _run_id(job), Prepare, self._house.clock.elapsed()):
                try:
                    self._tell(name, prepare_command(self._house, job, name, self.roster))
                except NotFound as error:  # its GPUs are others than when this was booked
                    self._talks.refuse(name, _run_id(job), str(error), PATIENCE)
                    self._dirty[job.id] = None

    def _start(self, job: Job) -> None:
        written = self._write(job, lifecycle.running(job.status, self._house.clock.now()))
        run = written.status.run
        if run is not None:
            self._tell_all(dict.fromkeys(slot.node for slot in run.placement), Go(run.id, bound(written)))

    def _end(self, job: Job, step: next_step.End) -> None:
        now = self._house.clock.now()
        self._quarantine(job, step.lost)
        status = lifecycle.ended(job, step.exit, step.ran, now, bool(step.lost))
        self._write(job, status)

    def _quarantine(self, job: Job, lost: tuple[str, ...]) -> None:
        """Durable before the object may say that the run has ended."""
        run = job.status.run
        if run is not None and lost:
            for node in self.roster.quarantine(run.id, [slot for slot in run.placement if slot.node in lost]):
                self.roster.save(node)

    def _hand_over(self, job: Job) -> None:
        """To the runtime's pool: nothing of it may hold up a placement."""
        last, now = self._settling.get(job.id), self._house.clock.elapsed()
        if last is None or now - last >= self._pace.retry:
            self._settling[job.id] = Span(1 << 60)  # until `settled`
            self._settle(job)

    # ------------------------------------------------------------ what is known

    def _write(self, job: Job, status: JobStatus) -> Job:
        """Until it has succeeded, nobody knows what is stored."""
        self._stale[job.id] = None
        self._dirty[job.id] = None
        written = self._house.workloads.replace(evolve(job, status=status))
        del self._stale[job.id]
        self._take(written)
        return written

    def _take(self, job: Job) -> None:
        """Note an object as it is stored now. Raises StaleEpoch if a newer term has placed it."""
        newest = max((run.epoch for run in job.status.runs), default=0)
        if newest > self.epoch:
            raise StaleEpoch(f"{job.id} was placed by a newer term.", newest=newest)
        known = self._jobs.get(job.id)
        if known is not None and known.uid != job.uid:
            self._drop(job.id)
        elif known is not None:
            self._past.setdefault(job.id, set()).add(known.version)
        if self._bookings.follow(job):
            self._queue_moved = True
        self._look_after(run for run in job.status.runs if run.state is RunState.ENDED)
        if job.status.phase in TERMINAL:
            self._drop(job.id)
            return
        self._jobs[job.id] = job
        if job.status.phase is not Phase.PENDING:
            self.queue.drop(job.id)
        self._dirty[job.id] = None

    def _suspect(self, job_id: str) -> None:
        self._stale[job_id] = self._dirty[job_id] = None

    def _read_again(self, job_id: str) -> None:
        fresh = self._house.workloads.get(job_id)
        self._stale.pop(job_id, None)
        if fresh is None:
            self._drop(job_id)
        else:
            self._take(fresh)

    def _stored_now(self, job_id: str) -> Job | None:
        """For a decision that can't be taken back."""
        try:
            self._read_again(job_id)
        except Unreadable:
            self._suspect(job_id)
            raise
        return self._jobs.get(job_id)

    def _look_after(self, runs: Iterable[Run]) -> None:
        """What those may have left on their nodes is to be ended or forgotten there."""
        for run in runs:
            for name in dict.fromkeys(slot.node for slot in run.placement):
                self._orphans.add(name, run.id)

    def _drop(self, job_id: str) -> None:
        known = self._jobs.pop(job_id, None)
        if known is not None:
            self._look_after(known.status.runs)
        self._past.pop(job_id, None)
        self.queue.drop(job_id)
        self._settling.pop(job_id, None)
        if self._bookings.drop(job_id):
            self._queue_moved = True

    def _look_for_orphans(self) -> None:
        if self._orphans.look(self._jobs, self._stale):
            self._queue_moved = True

    def _views(self, job: Job) -> dict[str, NodeView]:
        run = job.status.run
        if run is None:
            return {}
        now, life = self._house.clock.elapsed(), self._house.terms.grant_life
        views = {}
        for name in dict.fromkeys(slot.node for slot in run.placement):
            talk, view = self._talks.about(name, run.id), self.roster.view(name, run.id)
            old = talk.granted is None or now - talk.granted >= Span(life.ms // 2)
            failed = view.report is not None and bool(view.report.stored_error or view.report.fetch_error)
            refused = _HOMELESS if job.id in self._bookings.homeless else talk.refused
            views[name] = evolve(view, absent=talk.absent, refused=refused, stale=old or failed)
        return views

    # ------------------------------------------------------------ commands

    def _tell_all(self, names: Iterable[str], command: Command) -> None:
        for name in names:
            self._tell(name, command)

    def _tell(self, name: str, command: Command) -> None:
        now = self._house.clock.elapsed()
        if self._talks.due(name, command.run, type(command), now):
            self._talks.sent(name, command, now)
            self._send(name, command)

    def _mark_node(self, name: str) -> None:
        for job in self._jobs.values():
            run = job.status.run
            if run is not None and any(slot.node == name for slot in run.placement):
                self._dirty[job.id] = None

    def _mark_waiting(self) -> None:
        """What time alone moves on: silent nodes, unanswered commands, half-done submits, settling that failed."""
        for job in self._jobs.values():
            if job.status.phase is not Phase.PENDING or job.id not in self.queue:
                self._dirty[job.id] = None
        for node in self.roster.all():
            for run in (*self.roster.quarantined(node.name), *self.roster.untold(node.name)):
                self._orphans.add(node.name, run)


_HOMELESS = "its booking was made by an earlier term, and its slots are taken."


def _run_id(job: Job) -> RunId:
    run = job.status.run
    if run is None:
        raise ValueError(f"{job.id} has no run")
    return run.id
