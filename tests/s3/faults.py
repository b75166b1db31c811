"""A proxy before an S3 that does what networks and busy stores do: it is slow, cuts answers short, and says 500 or 503.

Signatures stay as they are: the client signs for the proxy's address, and the Host header passes on unchanged.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PIECE = 64 * 1024
_HOP = {"connection", "keep-alive", "transfer-encoding"}
_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_BROKEN = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>"


class Fault(StrEnum):
    """slow: a pause before each piece. truncated: half an answer, then the end of the connection. shortened: half an answer that
    says of itself that it is whole. reset: the connection ends while the request is being read."""

    SLOW = "slow"
    TRUNCATED = "truncated"
    SHORTENED = "shortened"
    INTERNAL = "500"
    SLOW_DOWN = "503"
    RESET = "reset"


class FaultProxy:
    """faults: what happens to the next requests, one each; then they pass. always: what happens to each, if there is one.
    seen: method and path of each request, and what happened to it."""

    def __init__(self, upstream: str) -> None:
        self.port = urlsplit(upstream).port or 80
        self.faults: list[Fault] = []
        self.always: Fault | None = None
        self.seen: list[tuple[str, str, str]] = []
        proxy = self

        class Handler(_Handler):
            def __init__(self, *args: object) -> None:
                self.proxy = proxy
                super().__init__(*args)  # type: ignore[arg-type]

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="faults", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def next_fault(self) -> Fault | None:
        return self.faults.pop(0) if self.faults else self.always

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def faulty(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _pass_on(self) -> None:
        fault = self.proxy.next_fault()
        self.proxy.seen.append((self.command, self.path.partition("?")[0], fault or ""))
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        length = int(self.headers.get("Content-Length", "0"))
        if fault is Fault.RESET:
            self.rfile.read(length // 2)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if fault in (Fault.INTERNAL, Fault.SLOW_DOWN):
            self._refuse(int(fault.value))
            return
        upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=60)
        try:
            kept = {name: value for name, value in self.headers.items() if name.lower() not in _HOP | {"expect"}}
            upstream.request(self.command, self.path, body, kept)
            with suppress(BrokenPipeError, ConnectionResetError):
                self._answer(upstream.getresponse(), fault)
        except (OSError, http.client.HTTPException):  # the store is away
            self.close_connection = True
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 - the names that the library calls

    def _answer(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        data = b"" if self.command == "HEAD" else answer.read()
        self.send_response(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP | {"content-length", "date", "server"}:
                self.send_header(name, value)
        sent = data[: len(data) // 2] if fault in (Fault.TRUNCATED, Fault.SHORTENED) else data
        said = len(sent) if fault is Fault.SHORTENED else len(data)
        self.send_header("Content-Length", answer.getheader("Content-Length") or "0" if self.command == "HEAD" else str(said))
        self.end_headers()
        for at in range(0, len(sent), PIECE):
            if fault is Fault.SLOW:
                time.sleep(0.02)
            self.wfile.write(sent[at : at + PIECE])
        if fault is Fault.TRUNCATED:
            self.close_connection = True

    def _refuse(self, status: int) -> None:
        data = _SLOW_DOWN if status == 503 else _BROKEN
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
