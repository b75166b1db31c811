"""One process of ours that schedules: core's Scheduler, and what carries its words and its commands.

It does what the threads of a term do, one piece at a time and in whatever order the actions say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from attrs import define, field

from core.close import settle
from core.house import House
from core.schedule import Scheduler
from ports.cluster import Answer, ClusterNode, Command, Forget, Hello, Reports
from ports.errors import Conflict, Refused, StaleEpoch, Unavailable
from ports.leadership import Epochs
from ports.workloads import Changes, Job
from tests.simulation.faults import Faults
from tests.simulation.machines import Machine

Event = tuple[str, Callable[[Scheduler], None]]


@define
class Line:
    """To one agent. incarnation: of the agent that said hello to this term, "" before."""

    incarnation: str = ""
    cursor: str = ""
    outbox: list[Command] = field(factory=list)


def take_epoch(epochs: Epochs, at_least: int) -> int:
    """As the runtime does it."""
    while True:
        seen = epochs.read()
        epoch = max(seen, at_least) + 1
        try:
            epochs.raise_to(epoch, seen)
        except Conflict:
            continue
        return epoch


class Process:
    """Raises Unavailable if it can't begin. deposed: it has heard of a newer term, and stops."""

    def __init__(
        self,
        house: House,
        epochs: Epochs,
        machines: Mapping[str, Machine],
        faults: Faults,
        at_least: int,
        make: type[Scheduler] = Scheduler,
    ) -> None:
        self._house, self._machines, self._faults = house, machines, faults
        self.inbox: deque[Event] = deque()
        self.lines: dict[str, Line] = {}
        self.settling: list[Job] = []
        self.deposed = 0
        self.epoch = take_epoch(epochs, at_least)
        self.cursor = house.workloads.changes("").cursor
        self.scheduler = make(house, self.epoch, self._send, self.settling.append)
        self.scheduler.boot()

    def _send(self, name: str, command: Command) -> None:
        line = self.lines.get(name)
        if line is not None:
            line.outbox.append(command)

    # ------------------------------------------------------------ what the deciding thread does

    def events(self, count: int) -> str:
        told = []
        for _ in range(min(count, len(self.inbox))):
            text, act = self.inbox.popleft()
            told.append(text)
            act(self.scheduler)
            if self.deposed:
                break
        return "; ".join(told)

    def round(self) -> str:
        try:
            self.scheduler.round()
        except Unavailable as error:
            return str(error)
        except StaleEpoch as error:
            self.deposed = error.newest
            return str(error)
        return ""

    # ------------------------------------------------------------ what the other threads do

    def watch(self) -> str:
        try:
            changes = self._house.workloads.changes(self.cursor)
        except Unavailable as error:
            return str(error)
        self.cursor = changes.cursor
        if changes.jobs or changes.deleted:
            self.inbox.append((_changes_text(changes), lambda scheduler: scheduler.changed(changes)))
        return ""

    def poll(self, name: str) -> str:
        """Hello, or what changed since the last time."""
        machine = self._machines[name]
        line = self.lines.setdefault(name, Line())
        try:
            if not line.incarnation:
                seen = machine.seen()
                hello = self._faults.io("agent.hello", lambda: machine.hello(self.epoch))
                machine.heard(self.epoch)
                line.incarnation, line.cursor = hello.incarnation, ""
                self._up(seen, hello)
                return f"hello from {name}"
            reports = self._faults.io("agent.reports", lambda: machine.reports(line.cursor))
        except StaleEpoch as error:
            self._deposed(error.newest)
            return str(error)
        except Unavailable as error:
            line.incarnation = ""
            why = str(error)
            self.inbox.append((f"{name} is down", lambda scheduler: scheduler.node_down(name, why)))
            return why
        machine.heard(self.epoch)
        if reports.cursor.partition(":")[0] != line.incarnation:
            line.incarnation = ""
            return f"{name} has a new agent"
        line.cursor = reports.cursor
        self._reported(name, reports)
        return ""

    def _up(self, seen: ClusterNode, hello: Hello) -> None:
        known = ", ".join(f"{run.run} {run.state}" for run in hello.runs)
        self.inbox.append((f"{seen.name} is up ({known})", lambda scheduler: scheduler.node_up(seen, hello, f"http://{seen.name}")))

    def _reported(self, name: str, reports: Reports) -> None:
        text = f"{name} reports {', '.join(f'{each.run} {each.state}' for each in reports.reports) or 'times'}"
        self.inbox.append((text, lambda scheduler: scheduler.reported(name, reports)))

    def _deposed(self, newest: int) -> None:
        def act(_: Scheduler) -> None:
            self.deposed = newest

        self.inbox.append((f"a newer term {newest}", act))

    def again(self, count: int) -> None:
        """An event that comes twice: the last poll's answer is asked for again."""
        line = list(self.lines.values())
        if line:
            line[count % len(line)].cursor = ""

    def deliver(self, name: str) -> str:
        line = self.lines.get(name)
        if line is None or not line.outbox:
            return ""
        batch, line.outbox = line.outbox, []
        if not line.incarnation:
            return "dropped"
        machine = self._machines[name]
        text = ", ".join(f"{type(each).__name__} {each.run}" for each in batch)
        try:
            answers = self._faults.io("agent.command", lambda: machine.command(self.epoch, batch))
        except StaleEpoch as error:
            self._deposed(error.newest)
            return str(error)
        except Unavailable as error:
            return f"{text}: {error}"
        for command, answer in zip(batch, answers, strict=True):
            if not answer.ok or not answer.known or isinstance(command, Forget):
                self._answered(name, command, answer)
        return f"{name}: {text}"

    def _answered(self, name: str, command: Command, answer: Answer) -> None:
        text = f"{name} answers {type(command).__name__} {command.run} {answer.ok} {answer.error}"
        self.inbox.append((text, lambda scheduler: scheduler.answered(name, command, answer)))

    def settle_one(self) -> str:
        if not self.settling:
            return ""
        job = self.settling.pop(0)
        told = f"{job.id} ({job.status.phase})"
        try:
            settle(self._house, job)
        except (Refused, Conflict, Unavailable) as error:
            told += f": {error}"
        finally:
            self.inbox.append((f"{job.id} settled", lambda scheduler: scheduler.settled(job.id)))
        return told


def _changes_text(changes: Changes) -> str:
    changed = [f"{job.id} {job.status.phase} v{job.version}" for job in changes.jobs]
    return "store: " + ", ".join(changed + [f"-{name}" for name in changes.deleted])
