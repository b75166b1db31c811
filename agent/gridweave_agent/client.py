"""How a scheduler talks to an agent: one kept connection per kind of call, a deadline on each, two errors.

A call that broke on a kept connection is tried once more on a fresh one: every command is idempotent.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from gridweave_agent.protocol import PROTOCOL

Json = dict[str, Any]


class AgentUnavailable(Exception):
    """The agent could not be asked, or did not answer as an agent does."""


class AgentStaleEpoch(Exception):
    """The agent obeys a newer scheduler. newest: that one's epoch."""

    def __init__(self, newest: int) -> None:
        super().__init__(f"the agent obeys epoch {newest}")
        self.newest = newest


@dataclass(frozen=True)
class LogPiece:
    """data: bytes from the offset asked for. end: bytes of the log so far. complete: no more will come after `data`."""

    data: bytes
    end: int
    complete: bool


class AgentClient:
    """For one agent. Thread-safe; calls of one kind queue up behind each other. deadline_s: for an answer."""

    def __init__(self, address: str, token: str, deadline_s: float = 10.0) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._token, self._deadline = token, deadline_s
        self._lines = {kind: _Line() for kind in ("hello", "commands", "reports", "log")}

    def hello(self, epoch: int) -> Json:
        """Raises AgentUnavailable, AgentStaleEpoch; so do the others."""
        return self._json("hello", "POST", "/v1/hello", {"protocol": PROTOCOL, "epoch": epoch})

    def commands(self, epoch: int, commands: Sequence[Mapping[str, object]]) -> list[Json]:
        """An answer to each: {"ok", "known", "error"}."""
        body = {"protocol": PROTOCOL, "epoch": epoch, "commands": list(commands)}
        return cast("list[Json]", self._json("commands", "POST", "/v1/commands", body)["answers"])

    def reports(self, cursor: str = "", wait_ms: int = 0) -> Json:
        """{"cursor", "incarnation", "reports", "ran"}; waits up to `wait_ms` for the first change."""
        return self._json("reports", "GET", "/v1/reports?" + urlencode({"cursor": cursor, "wait_ms": wait_ms}), wait_ms=wait_ms)

    def log(self, run: str, offset: int = 0, limit: int = 1 << 20, wait_ms: int = 0) -> LogPiece | None:
        """Bytes of a run's log; None if the agent does not know the run."""
        query = urlencode({"run": run, "offset": offset, "limit": limit, "wait_ms": wait_ms})
        status, headers, data = self._call("log", "GET", f"/v1/log?{query}", None, wait_ms)
        if status == 404:
            return None
        self._check(status, data)
        return LogPiece(data, int(headers["X-Log-End"]), headers["X-Log-Complete"] == "true")

    def close(self) -> None:
        for line in self._lines.values():
            line.drop()

    def _json(self, kind: str, method: str, path: str, body: Mapping[str, object] | None = None, wait_ms: int = 0) -> Json:
        status, _, data = self._call(kind, method, path, body, wait_ms)
        self._check(status, data)
        try:
            return cast(Json, json.loads(data))
        except ValueError as error:
            raise AgentUnavailable("the agent's answer is not JSON") from error

    def _check(self, status: int, data: bytes) -> None:
        if status == 200:
            return
        try:
            said = json.loads(data)
        except ValueError:
            said = {}
        if status == 409 and said.get("error") == "stale-epoch":
            raise AgentStaleEpoch(int(said["newest"]))
        raise AgentUnavailable(f"the agent answered {status}: {said.get('error', '')}")

    def _call(
        self, kind: str, method: str, path: str, body: Mapping[str, object] | None, wait_ms: int
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        line = self._lines[kind]
        with line.lock:
            while True:
                kept = line.connection is not None
                try:
                    connection = line.open(self._host, self._port, self._deadline + wait_ms / 1000)
                    connection.request(method, path, data, headers)
                    answer = connection.getresponse()
                    content = answer.read()
                except TimeoutError as error:
                    line.drop()
                    raise AgentUnavailable("the agent did not answer in time") from error
                except (OSError, http.client.HTTPException) as error:
                    line.drop()
                    if not kept:
                        raise AgentUnavailable(f"the agent can't be reached: {error}") from error
                else:
                    return answer.status, answer.headers, content


class _Line:
    """A kept connection, and whose turn it is."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: http.client.HTTPConnection | None = None

    def open(self, host: str, port: int, deadline_s: float) -> http.client.HTTPConnection:
        if self.connection is None:
            self.connection = http.client.HTTPConnection(host, port, timeout=deadline_s)
            self.connection.connect()
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        elif self.connection.sock is not None:
            self.connection.sock.settimeout(deadline_s)
        return self.connection

    def drop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None
