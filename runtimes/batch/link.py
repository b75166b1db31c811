"""The line to one node's agent: one command and one poll in flight, never more.

Two threads: one introduces the term and then polls reports, the other sends what the scheduler wants sent, many
commands in one request. Whatever fails is told and tried again; nothing is lost by dropping a command, since the
scheduler repeats what still has to be done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import structlog

from ports.cluster import Agent, Cluster, ClusterNode, Command, Forget
from ports.errors import GridweaveError, StaleEpoch, Unavailable
from ports.units import Span
from runtimes.batch.events import Answered, Deposed, Event, NodeDown, NodeUp, Reported

POLL = Span(2_000)  # also the longest that stopping waits for it
BATCH = 256
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
log = structlog.get_logger("gridweave.link")


class NodeLink:
    """poll: the longest that one may wait; running times are as old as that."""

    def __init__(self, node: ClusterNode, cluster: Cluster, epoch: int, tell: Callable[[Event], None], poll: Span = POLL) -> None:
        self.node = node
        self._poll_for = poll
        self._cluster, self._epoch, self._tell = cluster, epoch, tell
        self._outbox: SimpleQueue[Command | None] = SimpleQueue()
        self._stop = threading.Event()
        self._agent: Agent | None = None
        self._threads = [
            threading.Thread(target=self._talk, name=f"poll-{node.name}", daemon=True),
            threading.Thread(target=self._write, name=f"send-{node.name}", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def send(self, command: Command) -> None:
        """Never waits."""
        self._outbox.put(command)

    def stop(self) -> None:
        """Ask both threads to end; they do so within one poll."""
        self._stop.set()
        self._outbox.put(None)

    def join(self, timeout_s: float) -> None:
        for thread in self._threads:
            thread.join(timeout_s)

    def _talk(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                agent = self._cluster.agent(self.node)
                hello = agent.hello(self._epoch)
                self._agent = agent
                self._tell(NodeUp(self.node, hello, self._cluster.address(self.node.name)))
                pause = FIRST_PAUSE_S
                self._poll(agent, hello.incarnation)
            except StaleEpoch as error:
                self._tell(Deposed(error.newest))
                return
            except Unavailable as error:
                if self._agent is not None:
                    log.warning("a node can't be asked", node=self.node.name, error=str(error))
                self._agent = None
                self._tell(NodeDown(self.node.name, str(error)))
            except Exception as error:
                self._agent = None
                log.exception("the line to an agent broke", node=self.node.name)
                self._tell(NodeDown(self.node.name, f"{type(error).__name__}: {error}"[:300]))
            self._stop.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def _poll(self, agent: Agent, incarnation: str) -> None:
        """Until the agent can't be asked, or another incarnation of it answers."""
        cursor = ""
        while not self._stop.is_set():
            reports = agent.reports(cursor, self._poll_for)
            if reports.cursor.partition(":")[0] != incarnation:
                return
            cursor = reports.cursor
            self._tell(Reported(self.node.name, reports))

    def _write(self) -> None:
        while not self._stop.is_set():
            batch = self._next_batch()
            agent = self._agent
            if not batch or agent is None:
                continue  # dropped: the scheduler says it again once the node answers
            try:
                answers = agent.command(self._epoch, batch)
            except StaleEpoch as error:
                log.warning("commands refused: the node obeys a newer term", node=self.node.name, epoch=self._epoch, newest=error.newest)
                self._tell(Deposed(error.newest))
                return
            except GridweaveError as error:
                log.info("commands not delivered", node=self.node.name, count=len(batch), error=str(error))
                continue
            for command, answer in zip(batch, answers, strict=True):
                if not answer.ok or not answer.known or isinstance(command, Forget):
                    self._tell(Answered(self.node.name, command, answer))

    def _next_batch(self) -> list[Command]:
        first = self._outbox.get()
        batch = [first] if first is not None else []
        while len(batch) < BATCH:
            try:
                command = self._outbox.get_nowait()
            except Empty:
                break
            if command is not None:
                batch.append(command)
        return batch
