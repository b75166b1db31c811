"""The line to the control service: one call is one request, its error is the error that the other end raised.

A request that got no answer is Unavailable: whether it acted is not known, and asking again is right.
"""

from __future__ import annotations

import json
from typing import Any

import httpx

from ports import calls
from ports.calls import Method
from ports.errors import Refused, Unavailable

CONNECT_S, ANSWER_S = 3.0, 20.0
CONNECTIONS = 32


class Line:
    """url: of the control service. token: its ADMIN_TOKEN. Any number of threads may call."""

    def __init__(self, url: str, token: str, transport: httpx.BaseTransport | None = None) -> None:
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS),
            trust_env=False,
            transport=transport,
        )

    def close(self) -> None:
        self._client.close()

    def call(self, path: str, method: Method, *args: Any, **named: Any) -> Any:
        """Raises what the other end raises, and Unavailable."""
        return self._ask(path, method, calls.pack(method, *args, **named), ANSWER_S)

    def call_patiently(self, patience_s: float, path: str, method: Method, *args: Any) -> Any:
        """Likewise, of what may wait for so long before it answers."""
        return self._ask(path, method, calls.pack(method, *args), ANSWER_S + patience_s)

    def _ask(self, path: str, method: Method, form: calls.Form, seconds: float) -> Any:
        body = json.dumps(form, separators=(",", ":")).encode()  # ASCII: half of a surrogate pair travels as its escape
        try:
            answer = self._client.post(f"/v1/{path}/{method.__name__}", content=body, timeout=httpx.Timeout(seconds, connect=CONNECT_S))
            said = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise Unavailable("the control service", type(error).__name__) from error
        if answer.status_code == 200 and isinstance(said, dict) and "result" in said:
            return calls.take(method, said["result"])
        if answer.status_code == 401:
            raise Refused("The control service does not take this token.", "ADMIN_TOKEN", "Set ADMIN_TOKEN as it has it.")
        raise calls.take_error(said)
