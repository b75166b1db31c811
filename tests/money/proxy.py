"""A proxy before a real service: answers that are lost, late, doubled, or 500 after the service has done it all.

A late request arrives after others that were sent after it, when nobody waits for its answer any more.
"""

from __future__ import annotations

import http.client
import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from attrs import frozen

KINDS = ("dropped", "lost", "late", "doubled", "broken")
_HEADERS = ("Authorization", "Content-Type")


@frozen
class _Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class FaultProxy:
    """Serves on loopback until closed. share: of requests that go wrong, from 0 to 1; kinds: how. Both may be set anew."""

    def __init__(self, url: str, seed: str, share: float, kinds: tuple[str, ...] = KINDS) -> None:
        self.share, self.kinds, self.mishaps = share, kinds, Counter[str]()
        self._address, self._source = urlsplit(url).netloc, random.Random(seed)
        self._late: list[_Request] = []
        self._lock = threading.Lock()
        proxy = self

        class Handler(_Handler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name: self.headers[name] for name in _HEADERS if name in self.headers}
                proxy._handle(self, _Request("POST", self.path, headers, body))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def flush(self) -> None:
        """Whatever is on its way arrives."""
        with self._lock:
            for request in self._late:
                self._pass_on(request)
            self._late.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handle(self, handler: BaseHTTPRequestHandler, request: _Request) -> None:
        with self._lock:  # one at a time: a seed is then one history
            if self._late and self._source.random() < 0.3:
                self._pass_on(self._late.pop(self._source.randrange(len(self._late))))
            kind = self._source.choice(self.kinds) if self._source.random() < self.share else ""
            self.mishaps[kind or "none"] += 1
            if kind == "late":
                self._late.append(request)
            status, body = 0, b""
            for _ in range({"dropped": 0, "late": 0, "doubled": 2}.get(kind, 1)):
                status, body = self._pass_on(request)
        if kind in ("dropped", "late", "lost"):
            handler.close_connection = True
            return
        if kind == "broken":
            status, body = 500, b"<h1>Internal Server Error</h1>"
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _pass_on(self, request: _Request) -> tuple[int, bytes]:
        upstream = http.client.HTTPConnection(self._address, timeout=30)
        try:
            upstream.request(request.method, request.path, request.body, request.headers)
            answer = upstream.getresponse()
            return answer.status, answer.read()
        finally:
            upstream.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Says nothing."""
