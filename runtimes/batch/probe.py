"""Answers the kubelet's questions about a scheduler: does it still turn its rounds, and does it schedule or stand by?

A scheduler serves nobody, so both answers are about its one loop: `/healthz` and `/readyz` are 200 while the loop came
round lately, and 503 when it did not, for whatever reason: then only another process helps.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ports.units import Span

STUCK_AFTER = Span.of(seconds=120)  # longer than any single step may take: starting Ray's driver, reading every job anew


@contextmanager
def probe(host: str, port: int, silent: Callable[[], Span], scheduling: Callable[[], bool], stuck: Span = STUCK_AFTER) -> Iterator[int]:
    """Serve while within; gives the port (of 0: a free one). silent: for how long the loop has not come round."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 5  # seconds: who connects and asks nothing

        def do_GET(self) -> None:
            if self.path not in ("/healthz", "/readyz"):
                self.send_error(404)
                return
            still = silent()
            told = {"status": "ok" if still < stuck else "stuck", "scheduling": scheduling(), "silent_ms": still.ms}
            data = json.dumps(told).encode()
            self.send_response(200 if still < stuck else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """One line every few seconds would be all that the log holds."""

    with ThreadingHTTPServer((host, port), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="probe", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
