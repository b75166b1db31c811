"""The cluster in memory, in virtual time: what the contract says of nodes and agents, and nothing of processes.

How a run behaves is scripted: `behave` is asked once for each `prepare`. Time passes when a test says so, and while
somebody waits for reports. Faults are methods: an agent killed, a node killed or lost, a head that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import define, evolve, frozen

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
from ports.units import Mib, Span
from ports.workloads import Exit, ExitKind, RunId

PYTHON, CLOUDPICKLE = "3.11.7", "3.1.2"
WELL = Exit(ExitKind.RETURNED, 0)
FOREVER = Span.of(hours=24 * 365)


@frozen
class Script:
    """How a run behaves. setup: until it is ready. runs: from `go` until it ends by itself. dies: from kill to gone.

    exit: how it ends by itself; SetupFailed ends it instead of getting ready. result: what it leaves; stored: whether
    that can be uploaded.
    """

    setup: Span = Span(100)
    runs: Span = Span(1000)
    dies: Span = Span(10)
    exit: Exit = WELL
    result: bytes | None = b"result"
    stored: bool = True


@define
class _Run:
    prepare: Prepare
    script: Script
    report: RunReport
    since: Span  # when it got into its state
    went: Span | None = None
    dies_at: Span | None = None
    changed: int = 0


class MemoryCluster:
    """ports.cluster.Cluster. nodes: those that are there; their GPUs, or those of `probed` where the labels say none."""

    def __init__(
        self,
        nodes: Iterable[ClusterNode],
        behave: Callable[[Prepare], Script] = lambda prepare: Script(),
        probed: dict[str, tuple[Gpu, ...]] | None = None,
    ) -> None:
        self.now = Span(0)
        self.hung = False
        self.behave = behave
        self._nodes = {node.name: node for node in nodes}
        self._probed = probed or {}
        self._agents: dict[str, MemoryAgent] = {}

    def nodes(self) -> tuple[ClusterNode, ...]:
        self._check_head()
        return tuple(self._nodes[name] for name in sorted(self._nodes))

    def agent(self, node: ClusterNode) -> MemoryAgent:
        self._check_head()
        known = self._nodes.get(node.name)
        if known is None or not known.alive or node.problem:
            raise Unavailable(f"the agent of {node.name}", node.problem or "its node is not alive")
        if node.name not in self._agents:
            gpus = self._probed.get(node.name, ()) if node.gpus is None else node.gpus
            self._agents[node.name] = MemoryAgent(self, node.name, gpus)
        self._agents[node.name].up = True
        return self._agents[node.name]

    def address(self, node: str) -> str:
        agent = self._agents.get(node)
        return "" if agent is None else f"memory://{node}/{agent.incarnation}"

    def advance(self, span: Span) -> None:
        """Let time pass."""
        self.now += span
        for agent in self._agents.values():
            agent.settle()

    def kill_agent(self, name: str) -> None:
        """kill -9: runs live on, and the engine brings it back at once under another incarnation."""
        self._agents[name].restart()

    def kill_node(self, name: str) -> None:
        """Its raylet dies: the agent can't be asked, while its runs live on."""
        self._nodes[name] = evolve(self._nodes[name], alive=False)
        if name in self._agents:
            self._agents[name].up = False

    def start_node(self, name: str) -> None:
        self._nodes[name] = evolve(self._nodes[name], alive=True)
        if name in self._agents:
            self._agents[name].restart()

    def lose_machine(self, name: str) -> None:
        """The machine itself ends, with every process on it."""
        self.kill_node(name)
        if name in self._agents:
            self._agents[name].lose_all()

    def _check_head(self) -> None:
        if self.hung:
            raise Unavailable("ray", "no answer in virtual time")


class MemoryAgent:
    """ports.cluster.Agent. cut: it runs, but can't be asked."""

    def __init__(self, cluster: MemoryCluster, node: str, gpus: tuple[Gpu, ...]) -> None:
        self.node, self.gpus = node, gpus
        self.up, self.cut = True, False
        self.epoch, self.starts = 0, 1
        self._cluster = cluster
        self._runs: dict[RunId, _Run] = {}
        self._changes = 0

    @property
    def incarnation(self) -> str:
        return f"{self.node}-{self.starts}"

    def hello(self, epoch: int) -> Hello:
        self._obey(epoch)
        return Hello(self.node, self.incarnation, self.epoch, PYTHON, CLOUDPICKLE, self.gpus, tuple(map(self._now, self._runs.values())))

    def command(self, epoch: int, commands: Sequence[Command]) -> tuple[Answer, ...]:
        self._obey(epoch)
        answers = tuple(map(self._answer, commands))
        self.settle()
        return answers

    def reports(self, cursor: str, wait: Span) -> Reports:
        self._check()
        incarnation, _, seen = cursor.partition(":")
        after = int(seen) if incarnation == self.incarnation else -1
        until = self._cluster.now + wait
        while not (changed := [run for run in self._runs.values() if run.changed > after]) and self._cluster.now < until:
            self._cluster.advance(min(self._next_change(), until) - self._cluster.now)
            self._check()
        live = {run.prepare.run: self._now(run).ran for run in self._runs.values() if run.report.state is ReportState.RUNNING}
        uids = {run: self._runs[run].prepare.uid for run in live}
        return Reports(tuple(map(self._now, changed)), f"{self.incarnation}:{self._changes}", live, uids)

    def restart(self) -> None:
        self.starts += 1
        self.up = True

    def lose_all(self) -> None:
        for run in self._runs.values():
            if run.report.state is not ReportState.GONE:
                self._gone(run, Exit(ExitKind.RUNNER_LOST if run.report.started else ExitKind.NEVER_RAN), self._cluster.now)

    def settle(self) -> None:
        """Take every step that is due."""
        for run in self._runs.values():
            while run.report.state is not ReportState.GONE and (due := self._due(run)) <= self._cluster.now:
                self._step(run, due)

    def _answer(self, command: Command) -> Answer:
        if isinstance(command, Prepare):
            return self._prepare(command)
        run = self._runs.get(command.run)
        if run is None:
            return Answer(isinstance(command, Kill | Forget), "" if isinstance(command, Kill | Forget) else "unknown run", known=False)
        gone = run.report.state is ReportState.GONE
        match command:
            case Go():
                return self._go(run)
            case Kill():
                if not gone and run.dies_at is None:
                    run.dies_at = self._cluster.now + run.script.dies
            case Renew():
                pass
            case Forget():
                if not gone:
                    return Answer(False, "not gone")
                del self._runs[command.run]
        return Answer(True)

    def _prepare(self, command: Prepare) -> Answer:
        if command.run in self._runs:
            return Answer(True)
        totals = {gpu.index: gpu.total for gpu in self.gpus}
        for slot in command.slots:
            live = (run for run in self._runs.values() if run.report.state is not ReportState.GONE)
            taken = sum((each.mib for run in live for each in run.prepare.slots if each.gpu == slot.gpu), Mib(0))
            if slot.gpu not in totals or taken + slot.mib > totals[slot.gpu]:
                return Answer(False, f"GPU {slot.gpu} has no {slot.mib} left", known=False)
        report = RunReport(command.run, ReportState.PREPARING, slots=command.slots, epoch=self.epoch, detail="Setting up", uid=command.uid)
        run = self._runs[command.run] = _Run(command, self._cluster.behave(command), report, self._cluster.now)
        self._change(run, report)
        return Answer(True)

    def _go(self, run: _Run) -> Answer:
        if run.report.state is ReportState.PREPARING:
            return Answer(False, "not ready")
        if run.report.state is ReportState.READY:
            run.went = run.since = self._cluster.now
            self._change(run, evolve(run.report, state=ReportState.RUNNING, started=True))
        return Answer(True)

    def _due(self, run: _Run) -> Span:
        """When the run's next step comes by itself."""
        span = {ReportState.PREPARING: run.script.setup, ReportState.READY: FOREVER, ReportState.RUNNING: run.script.runs}
        by_itself = run.since + span[run.report.state]
        return by_itself if run.dies_at is None else min(by_itself, run.dies_at)

    def _step(self, run: _Run, due: Span) -> None:
        started = run.report.started
        if run.dies_at is not None and run.dies_at <= due:
            self._gone(run, Exit(ExitKind.KILLED if started else ExitKind.NEVER_RAN), due)
        elif started or run.script.exit.kind is ExitKind.SETUP_FAILED:
            self._gone(run, run.script.exit, due)
        else:
            run.since = due
            self._change(run, evolve(run.report, state=ReportState.READY, detail=""))

    def _gone(self, run: _Run, how: Exit, at: Span) -> None:
        result = None
        if how.kind in (ExitKind.RETURNED, ExitKind.RAISED) and run.script.result is not None:
            key = f"{run.prepare.output.prefix}result"
            result = StoredResult(key, len(run.script.result), "0" * 64, how.kind is ExitKind.RAISED)
        ran = Span(0) if run.went is None else at - run.went
        stored, error = (True, "") if run.script.stored else (False, "the grant has expired")
        self._change(run, evolve(run.report, state=ReportState.GONE, ran=ran, exit=how, result=result, stored=stored, stored_error=error))

    def _change(self, run: _Run, report: RunReport) -> None:
        self._changes += 1
        run.report, run.changed = report, self._changes

    def _now(self, run: _Run) -> RunReport:
        running = run.report.state is ReportState.RUNNING and run.went is not None
        return evolve(run.report, ran=self._cluster.now - run.went) if running and run.went is not None else run.report

    def _next_change(self) -> Span:
        live = (run for run in self._runs.values() if run.report.state is not ReportState.GONE)
        return min((self._due(run) for run in live), default=self._cluster.now + FOREVER)

    def _obey(self, epoch: int) -> None:
        self._check()
        if epoch < self.epoch:
            raise StaleEpoch(f"{self.node} obeys a scheduler of epoch {self.epoch}.", newest=self.epoch)
        self.epoch = epoch

    def _check(self) -> None:
        if not self.up or self.cut:
            raise Unavailable(f"the agent of {self.node}", "it does not answer")
