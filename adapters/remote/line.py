"""The line to a service of ours: one call is one request, its error is the error that the other end raised.

A request that got no answer is Unavailable: whether it acted is not known, and asking again is right. A line may ask
again by itself; that is for services whose every call is safe to repeat.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import stamina

from ports import calls
from ports.calls import Method
from ports.errors import Refused, Unavailable

CONNECT_S, ANSWER_S = 3.0, 20.0
CONNECTIONS = 32
CONTROL = "the control service"
NOT_LIKE_THIS = (400, 413, 415, 422)  # statuses: the same again would be answered the same
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0  # between two tries


class Line:
    """url: of the service. token: its ADMIN_TOKEN. Any number of threads may call."""

    def __init__(
        self, url: str, token: str, transport: httpx.BaseTransport | None = None, *, what: str = CONTROL, tries: int = 1, ours: bool = False
    ) -> None:
        """what: the service in words, for errors. tries: how often a call is made before it is Unavailable. ours: the token is of our
        settings and not of whoever calls, so that it is no fault of his if it is not taken: Unavailable."""
        self._what, self._tries, self._ours = what, tries, ours
        self._client = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
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

    def post(self, path: str, body: bytes, content_type: str) -> None:
        """Send what is no call, to whoever takes it: he need not know our form of an answer. Raises Unavailable, or Refused for what
        he would not take another time either."""
        for attempt in self._attempts():
            with attempt:
                self._sent(path, body, content_type)

    def _sent(self, path: str, body: bytes, content_type: str) -> None:
        answer = self._answer(path, body, httpx.Timeout(ANSWER_S, connect=CONNECT_S), content_type)
        if answer.is_success:
            return
        if answer.status_code in NOT_LIKE_THIS:
            raise Refused(f"{self._what.capitalize()} answers {answer.status_code} to what was sent: {answer.text:.200}")
        try:
            self._result(answer)
        except Refused as error:
            raise Unavailable(self._what, str(error)) from error

    def _ask(self, path: str, method: Method, form: calls.Form, seconds: float) -> Any:
        body = json.dumps(form, separators=(",", ":")).encode()  # ASCII: half of a surrogate pair travels as its escape
        for attempt in self._attempts():
            with attempt:
                said = self._posted(f"/v1/{path}/{method.__name__}", body, httpx.Timeout(seconds, connect=CONNECT_S))
        return calls.take(method, said, self._what)

    def _attempts(self) -> Iterator[AbstractContextManager[object]]:
        return iter(
            stamina.retry_context(on=Unavailable, attempts=self._tries, timeout=None, wait_initial=FIRST_PAUSE_S, wait_max=LONGEST_PAUSE_S)
        )

    def _posted(self, path: str, body: bytes, timeout: httpx.Timeout) -> Any:
        """What the other end gave as result."""
        return self._result(self._answer(path, body, timeout, "application/json"))

    def _answer(self, path: str, body: bytes, timeout: httpx.Timeout, content_type: str) -> httpx.Response:
        try:
            return self._client.post(path, content=body, timeout=timeout, headers={"Content-Type": content_type})
        except httpx.HTTPError as error:
            raise Unavailable(self._what, type(error).__name__) from error

    def _result(self, answer: httpx.Response) -> Any:
        try:
            said = answer.json()
        except ValueError as error:
            raise Unavailable(self._what, type(error).__name__) from error
        if answer.status_code == 200 and isinstance(said, dict) and "result" in said:
            return said["result"]
        if answer.status_code == 401 and self._ours:
            raise Unavailable(self._what, "it does not take our ADMIN_TOKEN: set it here as it is set there")
        if answer.status_code == 401:
            raise Refused(f"{self._what.capitalize()} does not take this token.", "ADMIN_TOKEN", "Set ADMIN_TOKEN as it has it.")
        raise calls.take_error(said, self._what)
