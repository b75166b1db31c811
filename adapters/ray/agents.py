"""The agent port over HTTP.

An agent that can't be reached may have been brought back under another address: Ray is asked once, and the request
is made again; all are idempotent. One that is there and does not answer in time is not looked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from gridweave_agent.client import AgentClient, AgentStaleEpoch, AgentUnavailable

from adapters.ray.wire import answer_of, command_json, hello_of, reports_of
from ports.cluster import Answer, Command, Hello, Reports
from ports.errors import StaleEpoch, Unavailable
from ports.units import Span

T = TypeVar("T")


class RayAgent:
    """ports.cluster.Agent. address: what is known of it now, "" if nothing. find: asks Ray where it is, starting it if
    need be; it may be set anew. answers_within: beside what a request itself waits."""

    def __init__(self, node: str, token: str, address: Callable[[], str], answers_within: Span = Span(10_000)) -> None:
        self.node, self.find = node, address
        self._token, self._address, self._answers_within = token, address, answers_within
        self._lock = threading.Lock()
        self._known: tuple[str, AgentClient] | None = None

    def hello(self, epoch: int) -> Hello:
        return self._ask(lambda client: hello_of(client.hello(epoch)))

    def command(self, epoch: int, commands: Sequence[Command]) -> tuple[Answer, ...]:
        said = [command_json(each) for each in commands]
        return self._ask(lambda client: tuple(map(answer_of, client.commands(epoch, said))))

    def reports(self, cursor: str, wait: Span) -> Reports:
        return self._ask(lambda client: reports_of(client.reports(cursor, wait.ms), self.node))

    def close(self) -> None:
        """Close its connections; the agent lives on."""
        with self._lock:
            if self._known is not None:
                self._known[1].close()
            self._known = None

    def _ask(self, ask: Callable[[AgentClient], T]) -> T:
        address = self._address() or self.find()
        try:
            return ask(self._client(address))
        except AgentStaleEpoch as error:
            raise self._stale(error) from error
        except AgentUnavailable as error:
            hangs = isinstance(error.__cause__, TimeoutError)
            found = address if hangs else self.find()
            if found == address:
                raise Unavailable(self._who, str(error)) from error
        try:
            return ask(self._client(found))
        except AgentStaleEpoch as error:
            raise self._stale(error) from error
        except AgentUnavailable as error:
            raise Unavailable(self._who, str(error)) from error

    def _client(self, address: str) -> AgentClient:
        with self._lock:
            if self._known is None or self._known[0] != address:
                if self._known is not None:
                    self._known[1].close()
                self._known = address, AgentClient(address, self._token, self._answers_within.seconds)
            return self._known[1]

    @property
    def _who(self) -> str:
        return f"the agent of {self.node}"

    def _stale(self, error: AgentStaleEpoch) -> StaleEpoch:
        return StaleEpoch(f"{self._who} obeys a scheduler of epoch {error.newest}.", newest=error.newest)
