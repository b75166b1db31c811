"""Machines, their agents and the runs on them: what is true, and what an agent says of it.

A machine may be off, cut off or without an agent; its disk (the journal) outlives all of that unless it is wiped.
Processes die with the machine, not with the agent. `Truth` remembers what no process of ours may be asked about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from attrs import define, field

from ports.blobs import Grant
from ports.cluster import (
    Answer,
    ClusterNode,
    Command,
    Forget,
    Go,
    Hello,
    Kill,
    Prepare,
    Renew,
    Reports,
    ReportState,
    RunReport,
    StoredResult,
)
from ports.errors import StaleEpoch, Unavailable
from ports.nodes import Gpu
from ports.units import Span
from ports.workloads import Exit, ExitKind, RunId
from tests.memory.blobs import MemoryBlobs
from tests.simulation.services import SimClock, digest

LIVE = frozenset({ReportState.PREPARING, ReportState.READY, ReportState.RUNNING})
NORMAL = (ExitKind.RETURNED, ExitKind.RAISED, ExitKind.EXITED, ExitKind.SIGNALLED)


@define
class Truth:
    """starts: how often user code was started, per run and machine. ran: ms from go to the (last) end. produced:
    runs that left a result on disk. refused: prepares that would have taken a GPU over its MiB. hurt: for how many ms a
    machine was off, cut off or without an agent, between two answers, at most so far."""

    starts: Counter[tuple[RunId, str]] = field(factory=Counter)
    ran: dict[RunId, int] = field(factory=dict)
    produced: dict[RunId, str] = field(factory=dict)
    refused: list[str] = field(factory=list)
    hurt: dict[str, int] = field(factory=dict)
    dead: set[RunId] = field(factory=set)  # runs of which a process was killed from outside
    vague: set[RunId] = field(factory=set)  # runs of which a supervisor was killed: its last heartbeat is all there is
    wiped: set[str] = field(factory=set)
    declared: set[str] = field(factory=set)

    def ended(self, run: RunId, ran: int) -> None:
        self.ran[run] = max(ran, self.ran.get(run, 0))


@define
class SimRun:
    """As in the agent's journal, and as its processes are."""

    prepare: Prepare
    epoch: int
    output: Grant
    server: int  # epoch of the term that gave the grants to fetch
    state: ReportState = ReportState.PREPARING
    started: bool = False
    go_at: int = 0
    ran: int = 0
    limit: int | None = None
    killed: bool = False
    exit: Exit | None = None
    result: StoredResult | None = None
    stored: bool = False
    stored_error: str = ""
    fetch_error: str = ""
    seq: int = 0
    dead: bool = False  # its processes are gone, and its agent does not know yet

    @property
    def id(self) -> RunId:
        return self.prepare.run

    @property
    def alive(self) -> bool:
        return self.state in LIVE and not self.dead


class Machine:
    """One node: `ports.cluster.Agent`, as far as it can be asked."""

    def __init__(self, name: str, label_owner: str, gpus: tuple[Gpu, ...], clock: SimClock, blobs: MemoryBlobs, truth: Truth) -> None:
        self.name, self.label_owner, self.gpus = name, label_owner, gpus
        self._clock, self._blobs, self._truth = clock, blobs, truth
        self.powered, self.connected, self.agent_up = True, True, True
        self.blobs_down: Callable[[], bool] = lambda: False
        self.serves: Callable[[int], bool] = lambda epoch: True  # whether the process of that term lives, and so serves its grants
        self.epoch = 0
        self.runs: dict[RunId, SimRun] = {}
        self._barred: dict[RunId, str | None] = {}  # of which workload; None: of any
        self._incarnation, self._seq = 1, 0
        self._silent = self._watched = 0

    # ------------------------------------------------------------ what a scheduler may ask

    @property
    def askable(self) -> bool:
        return self.powered and self.connected and self.agent_up

    def seen(self) -> ClusterNode:
        return ClusterNode(self.name, self.powered, self.label_owner)

    def hello(self, epoch: int) -> Hello:
        self._enter(epoch)
        self.epoch = epoch
        runs = tuple(self._report(run) for run in self.runs.values())
        return Hello(self.name, str(self._incarnation), epoch, "3.11.7", "3.1.2", self.gpus, runs)

    def command(self, epoch: int, commands: Sequence[Command]) -> tuple[Answer, ...]:
        self._enter(epoch)
        self.epoch = epoch
        return tuple(self._obey(each) for each in commands)

    def reports(self, cursor: str, wait: Span = Span(0)) -> Reports:
        self._ask()
        incarnation, _, number = cursor.partition(":")
        since = int(number) if incarnation == str(self._incarnation) and number else -1
        return Reports(
            tuple(self._report(run) for run in self.runs.values() if run.seq > since),
            f"{self._incarnation}:{self._seq}",
            {run.id: self._ran(run) for run in self.runs.values() if run.state is ReportState.RUNNING},
            {run.id: run.prepare.uid for run in self.runs.values() if run.state is ReportState.RUNNING},
        )

    def _ask(self) -> None:
        if not self.askable:
            raise Unavailable(f"the agent of {self.name}")

    def _enter(self, epoch: int) -> None:
        self._ask()
        if epoch < self.epoch:
            raise StaleEpoch(f"{self.name} obeys {self.epoch}", newest=self.epoch)

    def _obey(self, command: Command) -> Answer:
        run = self.runs.get(command.run)
        match command:
            case Prepare():
                return self._prepare(command)
            case Kill() if run is None:
                self._barred[command.run] = None
                return Answer(True, known=False)
            case Forget() if run is None:
                return Answer(True, known=False)
        if run is None:
            return Answer(False, "unknown run", known=False)
        match command:
            case Go(max_runtime=limit):
                return self._go(run, limit)
            case Kill():
                run.killed = True
                if run.state is ReportState.PREPARING:
                    self._end(run, Exit(ExitKind.NEVER_RAN, message="It was ended on request."))
            case Renew(output=grant, inputs=inputs):
                run.output = grant
                run.server = self.epoch if inputs else run.server
                self._mark(run)
            case Forget():
                if run.state is not ReportState.GONE:
                    return Answer(False, "only what is gone can be forgotten")
                del self.runs[run.id]
                self._barred[run.id] = run.prepare.uid
        return Answer(True)

    def _prepare(self, command: Prepare) -> Answer:
        if command.run in self.runs:
            same = self.runs[command.run].prepare.uid == command.uid
            return Answer(True) if same else Answer(False, "a run of that name of an earlier workload is here")
        if command.run in self._barred and self._barred[command.run] in (None, command.uid):
            return Answer(False, "the run was ended before it came")
        for slot in command.slots:
            total = next((gpu.total.n for gpu in self.gpus if gpu.index == slot.gpu), 0)
            if self.used(slot.gpu) + slot.mib.n > total:
                self._truth.refused.append(f"{command.run} on {self.name}: GPU {slot.gpu} has {total}, {self.used(slot.gpu)} used")
                return Answer(False, f"GPU {slot.gpu} is full")
        self.runs[command.run] = SimRun(command, self.epoch, command.output, self.epoch)
        self._mark(self.runs[command.run])
        return Answer(True)

    def _go(self, run: SimRun, limit: Span | None) -> Answer:
        if run.started:
            return Answer(True)
        if run.state is not ReportState.READY or run.killed:
            return Answer(False, "not ready")
        run.state, run.started, run.go_at, run.limit = ReportState.RUNNING, True, self._clock.ms, limit.ms if limit else None
        if run.dead:  # the go is in the journal, and nobody is there to obey it
            self._truth.ended(run.id, 0)
        else:
            self._truth.starts[run.id, self.name] += 1
        self._mark(run)
        return Answer(True)

    def used(self, gpu: int) -> int:
        """MiB of that GPU that live runs may use, as the agent sees it."""
        return sum(slot.mib.n for run in self.runs.values() if run.state in LIVE for slot in run.prepare.slots if slot.gpu == gpu)

    def _report(self, run: SimRun) -> RunReport:
        return RunReport(
            run.id,
            run.state,
            self._ran(run),
            run.started,
            "",
            run.exit,
            run.result if run.stored else None,
            run.stored,
            run.stored_error,
            run.prepare.slots,
            run.epoch,
            run.prepare.uid,
            run.fetch_error,
        )

    def _ran(self, run: SimRun) -> Span:
        return Span(self._clock.ms - run.go_at if run.state is ReportState.RUNNING and not run.dead else run.ran)

    def _mark(self, run: SimRun) -> None:
        self._seq += 1
        run.seq = self._seq

    # ------------------------------------------------------------ what happens there

    def work(self, which: int, option: int) -> str:
        """One run takes a step of its own: becomes ready, ends, is uploaded. `option` says how."""
        if not self.powered:
            return ""
        waiting = [run for run in self.runs.values() if self._may_work(run)]
        if not waiting:
            return ""
        run = waiting[which % len(waiting)]
        if run.state is ReportState.GONE:
            return self._upload(run)
        if run.dead:
            self._bury(run)
        elif run.state is ReportState.PREPARING:
            self._set_up(run, option)
        elif run.state is ReportState.READY:
            self._end(run, Exit(ExitKind.NEVER_RAN, message="It was ended on request."))
        elif not run.killed and option % 3:
            return f"{run.id} goes on"
        elif run.killed and option % 4:
            self._end(run, Exit(ExitKind.KILLED, signal="SIGTERM"))
        elif run.limit is not None and self._clock.ms - run.go_at > run.limit:
            self._end(run, Exit(ExitKind.KILLED, message="max_runtime"))
        else:
            self._end(run, Exit(NORMAL[(0, 0, 0, 0, 1, 2, 3, 0)[option // 4 % 8]], code=0))
        return f"{run.id} is {run.state}{f', {run.exit.kind}' if run.exit else ''}"

    def _set_up(self, run: SimRun, option: int) -> None:
        run.fetch_error = "" if self.serves(run.server) else "input function: the store can't be reached"
        if option % 16 == 15:
            self._end(run, Exit(ExitKind.SETUP_FAILED, message="no such package"))
        elif not run.fetch_error:
            run.state = ReportState.READY
        self._mark(run)

    def finish(self, run: RunId, how: Exit) -> None:
        """End a run as told."""
        self._end(self.runs[run], how)

    def _may_work(self, run: SimRun) -> bool:
        if run.dead or run.state is ReportState.PREPARING or (run.state is ReportState.GONE and not run.stored):
            return self.agent_up
        return run.state is ReportState.RUNNING or (run.state is ReportState.READY and run.killed)

    def _end(self, run: SimRun, how: Exit) -> None:
        """Every process of it is gone, and its supervisor has written that down."""
        run.ran = self._clock.ms - run.go_at if run.started else 0
        run.state, run.exit = ReportState.GONE, how
        if run.started:
            self._truth.ended(run.id, run.ran)
        if how.kind in (ExitKind.RETURNED, ExitKind.RAISED):
            data = str(run.id).encode()
            key = f"{run.output.prefix}result"
            run.result = StoredResult(key, len(data), digest(data), how.kind is ExitKind.RAISED)
            self._truth.produced[run.id] = self.name
        self._mark(run)

    def _bury(self, run: SimRun) -> None:
        """The agent finds out that a supervisor is gone without a word."""
        run.state = ReportState.GONE
        run.exit = Exit(ExitKind.RUNNER_LOST if run.started else ExitKind.NEVER_RAN, message="Its supervisor is gone.")
        self._mark(run)

    def _upload(self, run: SimRun) -> str:
        if self.blobs_down():
            run.stored_error = "the blob store does not answer"
        elif run.output.expires < self._clock.now():
            run.stored_error = "the grant has expired"
        else:
            if run.result is not None:
                self._blobs.put(run.result.key, [str(run.id).encode()])
            run.stored, run.stored_error = True, ""
        self._mark(run)
        return f"{run.id}: {run.stored_error or 'stored'}"

    def kill_process(self, which: int) -> str:
        """kill -9 of a run's supervisor and all its processes."""
        alive = [run for run in self.runs.values() if run.alive]
        if not alive:
            return ""
        run = alive[which % len(alive)]
        self._die(run)
        return str(run.id)

    def _die(self, run: SimRun) -> None:
        run.dead = True
        self._truth.dead.add(run.id)
        if run.started:
            self._truth.vague.add(run.id)
            self._truth.ended(run.id, self._clock.ms - run.go_at)
            run.ran = (self._clock.ms - run.go_at) // 1000 * 1000  # the last heartbeat

    def stop_agent(self) -> None:
        self.agent_up = False

    def start_agent(self) -> None:
        """A successor adopts what lives, and buries what does not."""
        if not self.powered or self.agent_up:
            return
        self.agent_up = True
        self._incarnation += 1
        self._seq = 0
        self._barred = {run: uid for run, uid in self._barred.items() if uid is None}  # those are in its journal
        for run in self.runs.values():
            if run.dead and run.state in LIVE:
                self._bury(run)
            self._mark(run)

    def power_off(self) -> None:
        self.powered, self.agent_up = False, False
        for run in self.runs.values():
            if run.alive:
                self._die(run)

    def power_on(self, wiped: bool = False) -> None:
        if self.powered:
            return
        self.powered = True
        if wiped:
            self.runs.clear()
            self._barred.clear()
            self.epoch = 0
            self._truth.wiped.add(self.name)
        self.start_agent()

    def watch_silence(self) -> None:
        """Keep the books of how long nobody could ask since somebody last got an answer."""
        if not self.askable:
            self._silent += self._clock.ms - self._watched
            self._truth.hurt[self.name] = max(self._silent, self._truth.hurt.get(self.name, 0))
        self._watched = self._clock.ms

    def heard(self, epoch: int) -> None:
        """A term has got an answer, and none is newer."""
        if epoch >= self.epoch:
            self._silent = 0
