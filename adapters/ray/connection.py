"""One kept-alive HTTP connection to an agent, one request at a time, each with a deadline."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from attrs import frozen

from ports.errors import Unavailable

MAX_ANSWER_BYTES = 64 * 1024 * 1024


@frozen
class Response:
    """headers: names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """To whatever address the next request names. who: for errors. Requests must be idempotent: one that was sent on
    a connection which the other side had closed is sent again."""

    def __init__(self, who: str, token: str) -> None:
        self._who, self._token = who, token
        self._lock = threading.Lock()
        self._address = ""
        self._http: http.client.HTTPConnection | None = None

    def ask(self, address: str, method: str, path: str, body: Mapping[str, Any] | None, within_s: float) -> Response:
        """Raises Unavailable. A request that finds another one in flight waits for its turn, at most `within_s`."""
        if not self._lock.acquire(timeout=within_s):
            raise Unavailable(self._who, "an earlier request is still being answered")
        try:
            reused = self._http is not None and self._address == address
            try:
                return self._once(address, method, path, body, within_s)
            except ConnectionError:  # the other side may have closed an idle connection
                if not reused:
                    raise
                return self._once(address, method, path, body, within_s)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(self._who, f"{type(error).__name__}: {error}") from error
        finally:
            self._lock.release()

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def _once(self, address: str, method: str, path: str, body: Mapping[str, Any] | None, within_s: float) -> Response:
        if self._http is None or self._address != address:
            self.close()
            parts = urlsplit(address)
            self._http, self._address = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within_s), address
        try:
            self._http.timeout = within_s
            if self._http.sock is not None:
                self._http.sock.settimeout(within_s)
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            self._http.request(method, path, None if body is None else json.dumps(body).encode(), headers)
            answer = self._http.getresponse()
            data = answer.read(MAX_ANSWER_BYTES + 1)
            if len(data) > MAX_ANSWER_BYTES:
                raise http.client.HTTPException(f"its answer is longer than {MAX_ANSWER_BYTES} bytes")
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, data)
        except BaseException:
            self.close()
            raise
