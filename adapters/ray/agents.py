"""The agent port over HTTP, and the reading of logs at an agent.

Commands and reports have a connection each, so that a long poll delays no command. An agent that does not answer may
have been brought back under another address: Ray is asked once, and the request is made again; all are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from attrs import frozen

from adapters.ray.connection import Connection, Response
from adapters.ray.wire import PROTOCOL, answer_of, command_json, hello_of, reports_of
from ports.cluster import Answer, Command, Hello, Reports
from ports.errors import NotFound, StaleEpoch, Unavailable
from ports.units import Span
from ports.workloads import RunId


class RayAgent:
    """ports.cluster.Agent. address: what is known of it now, "" if nothing. find: asks Ray where it is, starting it if
    need be; it may be set anew. answers_within: beside what a request itself waits."""

    def __init__(self, node: str, token: str, address: Callable[[], str], answers_within: Span = Span(10_000)) -> None:
        self.node, self.find = node, address
        self._address, self._answers_within = address, answers_within
        self._commands, self._reports = Connection(f"the agent of {node}", token), Connection(f"the agent of {node}", token)

    def hello(self, epoch: int) -> Hello:
        return hello_of(self._ask(self._commands, "POST", "/v1/hello", {"protocol": PROTOCOL, "epoch": epoch}))

    def command(self, epoch: int, commands: Sequence[Command]) -> tuple[Answer, ...]:
        body = {"protocol": PROTOCOL, "epoch": epoch, "commands": [command_json(each) for each in commands]}
        return tuple(answer_of(each) for each in self._ask(self._commands, "POST", "/v1/commands", body)["answers"])

    def reports(self, cursor: str, wait: Span) -> Reports:
        query = urlencode({"cursor": cursor, "wait_ms": wait.ms})
        return reports_of(self._ask(self._reports, "GET", f"/v1/reports?{query}", None, wait), self.node)

    def close(self) -> None:
        """Close its connections; the agent lives on."""
        self._commands.close()
        self._reports.close()

    def _ask(self, connection: Connection, method: str, path: str, body: Mapping[str, Any] | None, wait: Span = Span(0)) -> Any:
        within = (wait + self._answers_within).seconds
        address = self._address() or self.find()
        try:
            response = connection.ask(address, method, path, body, within)
        except Unavailable as error:
            if isinstance(error.__cause__, TimeoutError):  # it is there, and hangs
                raise
            found = self.find()
            if found == address:
                raise
            response = connection.ask(found, method, path, body, within)
        return _accepted(response, f"the agent of {self.node}")


def _accepted(response: Response, who: str) -> Any:
    match response.status:
        case 200:
            return response.json()
        case 409:
            newest = int(response.json().get("newest", 0))
            raise StaleEpoch(f"{who} obeys a scheduler of epoch {newest}.", newest=newest)
        case 401:
            raise Unavailable(who, "it refuses our token: it was started with another secret")
        case status:
            raise Unavailable(who, f"it answered {status}: {response.body[:300].decode(errors='replace')}")


@frozen
class LogPart:
    """data: bytes from the offset asked for. end: how many the log has so far. complete: no more will come after `end`."""

    data: bytes
    end: int
    complete: bool


class AgentLogs:
    """Reads logs at agents: for gateways, which know an agent's address and its tail token from elsewhere."""

    def __init__(self, answers_within: Span = Span(10_000)) -> None:
        self._answers_within = answers_within

    def read(self, address: str, token: str, run: RunId, offset: int, limit: int, wait: Span) -> LogPart:
        """At most `limit` bytes from `offset`; waits up to `wait` for the first. Blocks: call it in a bounded pool.

        Raises NotFound if the agent does not know the run, Unavailable if it can't be asked.
        """
        who = "the agent"
        query = urlencode({"run": str(run), "offset": offset, "limit": limit, "wait_ms": wait.ms})
        connection = Connection(who, token)
        try:
            response = connection.ask(address, "GET", f"/v1/log?{query}", None, (wait + self._answers_within).seconds)
        finally:
            connection.close()
        if response.status == 404:
            raise NotFound(f"There is no log of {run} at its agent.")
        if response.status != 200:
            _accepted(response, who)
        return LogPart(response.body, int(response.headers["x-log-end"]), response.headers["x-log-complete"] == "true")
