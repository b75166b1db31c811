"""The platform in front of the gateway, as small as it can be: it turns an API key into identity headers.

A key is `<user>:<plan>:<role>`, and maybe a secret after it. Whatever identity the client claims by itself is dropped. Bodies pass in both
directions as they come, so that uploads, live logs and hang-ups are what they are without it.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import BinaryIO

PIECE = 64 * 1024
_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "authorization"}
_CLAIMS = ("x-user-", "x-platform-")


class Platform:
    """Serves on loopback until closed. gateway: its port, which may be set anew."""

    def __init__(self, gateway: int, token: str) -> None:
        self.gateway, self.token = gateway, token
        self.errors: list[bytes] = []  # their bodies, as they were passed on
        platform = self

        class Handler(_Handler):
            def __init__(self, *args: object) -> None:
                self.platform = platform
                super().__init__(*args)  # type: ignore[arg-type]

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="platform", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    platform: Platform

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _pass_on(self) -> None:
        upstream = http.client.HTTPConnection("127.0.0.1", self.platform.gateway, timeout=330)
        try:
            headers = self._headers()
            length, chunked = self.headers.get("Content-Length"), "chunked" in self.headers.get("Transfer-Encoding", "")
            if chunked:
                upstream.request(self.command, self.path, chunks(self.rfile), headers, encode_chunked=True)
            else:
                upstream.request(self.command, self.path, exactly(self.rfile, int(length)) if length else None, headers)
            self._answer(upstream.getresponse())
        except (ConnectionRefusedError, ConnectionResetError, http.client.HTTPException):
            self._unavailable()
        except BrokenPipeError:  # one of the two hung up
            self.close_connection = True
        finally:
            upstream.close()

    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = _pass_on  # noqa: N815 - the names that the library calls

    def _headers(self) -> dict[str, str]:
        kept = {name: value for name, value in self.headers.items() if name.lower() not in _HOP and not name.lower().startswith(_CLAIMS)}
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            kept["Transfer-Encoding"] = "chunked"
        scheme, _, key = self.headers.get("Authorization", "").partition(" ")
        if scheme == "Bearer" and key.count(":") in (2, 3):
            user, plan, role = key.split(":")[:3]
            kept |= {"X-User-Id": user, "X-User-Plan": plan, "X-User-Role": role, "X-Platform-Token": self.platform.token}
        return kept

    def _answer(self, response: http.client.HTTPResponse) -> None:
        self.send_response(response.status, response.reason)
        sized = response.getheader("Content-Length") is not None or response.status in (204, 304)
        for name, value in response.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if not sized:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := response.read1(PIECE):
            if response.status >= 400:
                self.platform.errors.append(piece)
            self.wfile.write(piece if sized else b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if not sized:
            self.wfile.write(b"0\r\n\r\n")

    def _unavailable(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.send_response(502)
            self.send_header("Content-Length", "0")
            self.end_headers()


def exactly(body: BinaryIO | object, length: int) -> Iterator[bytes]:
    left = length
    while left > 0:
        piece = body.read(min(PIECE, left))  # type: ignore[union-attr]
        if not piece:
            return
        left -= len(piece)
        yield piece


def chunks(body: BinaryIO | object) -> Iterator[bytes]:
    """The pieces of a body in chunked coding; what follows the last one is read away."""
    while size := int(body.readline().partition(b";")[0], 16):  # type: ignore[union-attr]
        yield from exactly(body, size)
        body.readline()  # type: ignore[union-attr]
    while body.readline().strip():  # type: ignore[union-attr]
        pass
