"""The agent over HTTP/1.1: versioned JSON, a token compared in constant time, bounded bodies and bounded threads.

Hello, commands and reports take the command token; the log also takes the tail token.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from gridweave_agent.agent import Agent, StaleEpoch
from gridweave_agent.protocol import GONE, PROTOCOL, BadMessage, read_int, read_list

log = logging.getLogger("gridweave_agent")

_LONGEST_WAIT_MS = 60_000
_LOG_LIMIT = 4 << 20  # bytes of one answer
_GATHER_S = 0.1  # a follower's bytes are gathered so long, or a chatty log costs a core
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Server(ThreadingHTTPServer):
    """Serves one agent. A connection more than `max_threads` is told 503 at once."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._free = threading.BoundedSemaphore(agent.settings.max_threads)
        self._open: set[socket.socket] = set()
        super().__init__((agent.settings.host, agent.settings.port), Handler)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]  # typeshed allows UDP's pairs here
        if not self._free.acquire(blocking=False):
            with suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]  # the same
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._free.release()

    def close(self) -> None:
        """Stop serving, open connections included."""
        self.shutdown()
        self.server_close()
        for request in tuple(self._open):
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("a connection from %s broke", client_address, exc_info=True)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "gridweave-agent"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave together
    timeout = 300  # seconds that an idle connection is kept
    server: Server

    def do_POST(self) -> None:
        self._answered({"/v1/hello": self._hello, "/v1/commands": self._commands}, tail=False)

    def do_GET(self) -> None:
        self._answered({"/v1/reports": self._reports, "/v1/log": self._log}, tail=urlsplit(self.path).path == "/v1/log")

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)

    def _answered(self, routes: Mapping[str, object], *, tail: bool) -> None:
        route = routes.get(urlsplit(self.path).path)
        try:
            if not self._allowed(tail=tail):
                self._json(401, {"error": "unauthenticated"}, close=True)
            elif not callable(route):
                self._json(404, {"error": f"no such route: {self.command} {urlsplit(self.path).path}"}, close=True)
            else:
                route()
        except BadMessage as error:
            self._json(400, {"error": str(error), "protocol": PROTOCOL}, close=True)
        except StaleEpoch as error:
            self._json(409, {"error": "stale-epoch", "newest": error.newest})
        except ConnectionError:
            self.close_connection = True
        except Exception as error:
            log.exception("%s %s", self.command, urlsplit(self.path).path)
            self._json(500, {"error": f"{type(error).__name__}: {error}"}, close=True)

    def _allowed(self, *, tail: bool) -> bool:
        settings = self.server.agent.settings
        given = self.headers.get("Authorization", "").encode("utf-8", "replace")
        good = hmac.compare_digest(given, f"Bearer {settings.token}".encode())
        if tail and settings.tail_token:
            good |= hmac.compare_digest(given, f"Bearer {settings.tail_token}".encode())
        return good

    # ------------------------------------------------------------ routes

    def _hello(self) -> None:
        body = self._body()
        if body.get("protocol") != PROTOCOL:
            raise BadMessage(f"protocol: {body.get('protocol')!r} given; this agent talks {PROTOCOL}")
        self._json(200, self.server.agent.hello(read_int(body, "epoch")))

    def _commands(self) -> None:
        body = self._body()
        if body.get("protocol", PROTOCOL) != PROTOCOL:
            raise BadMessage(f"protocol: {body.get('protocol')!r} given; this agent talks {PROTOCOL}")
        answers = self.server.agent.command(read_int(body, "epoch"), read_list(body, "commands"))
        self._json(200, {"answers": answers})

    def _reports(self) -> None:
        query = self._query()
        self._json(200, self.server.agent.table.reports(query.get("cursor", ""), _number(query, "wait_ms", 0, _LONGEST_WAIT_MS)))

    def _log(self) -> None:
        query = self._query()
        table = self.server.agent.table
        run = table.get(query.get("run", ""))
        if run is None:
            self._json(404, {"error": "unknown run"})
            return
        offset, limit = _number(query, "offset", 0, 1 << 62), _number(query, "limit", 1 << 20, _LOG_LIMIT)
        wait_ms = _number(query, "wait_ms", 0, _LONGEST_WAIT_MS)
        if wait_ms and run.log_bytes <= offset:
            table.wait_for_log(run, offset, wait_ms)
            if run.state != GONE and run.log_bytes > offset:
                time.sleep(_GATHER_S)
        gone = run.state == GONE  # read before the file: what is there then is all
        data, end = _read(run.dir.log, offset, limit)
        if table.get(query.get("run", "")) is not run:  # forgotten meanwhile: an empty log would be a lie
            self._json(404, {"error": "unknown run"})
            return
        complete = gone and offset + len(data) >= end
        self._send(200, "application/octet-stream", data, {"X-Log-End": str(end), "X-Log-Complete": "true" if complete else "false"})

    # ------------------------------------------------------------ bytes

    def _query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))

    def _body(self) -> dict[str, object]:
        length = self.headers.get("Content-Length", "")
        most = self.server.agent.settings.max_body_bytes
        if not length.isdecimal() or int(length) > most:
            raise BadMessage(f"Content-Length: {length or 'nothing'} given; wanted up to {most}")
        try:
            value = json.loads(self.rfile.read(int(length)))
        except ValueError as error:
            raise BadMessage("body: not JSON") from error
        if not isinstance(value, dict):
            raise BadMessage("body: wanted an object")
        return value

    def _json(self, status: int, value: Mapping[str, object], *, close: bool = False) -> None:
        self._send(status, "application/json", json.dumps(value).encode(), {"Connection": "close"} if close else {})

    def _send(self, status: int, kind: str, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 19:
        raise BadMessage(f"{name}: {text[:40]!r} given; wanted an integer of 0 or more")
    return min(int(text), most)


def _read(path: str, offset: int, limit: int) -> tuple[bytes, int]:
    """Up to `limit` bytes from `offset`, and how many there are in all."""
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(min(offset, end))
            return file.read(min(limit, max(0, end - offset))), end
    except FileNotFoundError:
        return b"", 0
