"""The outermost layer: refuses what no route could read, and remembers whether the client is still there.

It is plain ASGI, because the framework decodes queries and joins headers before any of its hooks runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import falcon.asgi
import msgspec

from ports.errors import Invalid
from runtimes.http import problems

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

_GONE = "gridweave.client_gone"
_MAX_TARGET = 8192


class Edge:
    """Wraps the Falcon application. on_stopping: called at SIGTERM, on the event loop."""

    def __init__(self, app: App, on_stopping: Callable[[], None]) -> None:
        self._app = app
        self.on_stopping = on_stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: the handshake is refused
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        wrong = _unreadable(scope)
        if wrong is not None:
            await _refuse(wrong, send)
            return

        opening = _brings_a_body(scope)

        async def watched() -> MutableMapping[str, Any]:
            nonlocal opening
            if opening:  # the framework waits for the first byte before it routes: who sends none would be neither checked nor bounded
                opening = False
                return {"type": "http.request", "body": b"", "more_body": True}
            event = await receive()
            if event["type"] == "http.disconnect":
                scope[_GONE] = True
            return event

        await self._app(scope, watched, send)


def gone(req: falcon.asgi.Request) -> bool:
    """Whether the client has hung up, as far as it is known."""
    return bool(req.scope.get(_GONE))


def _brings_a_body(scope: Scope) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 ")) for name, value in scope["headers"])


def _unreadable(scope: Scope) -> Invalid | None:
    query: bytes = scope.get("query_string") or b""
    path: str = scope["path"]
    try:
        query.decode("ascii")
    except UnicodeDecodeError:
        return Invalid("The query has bytes outside ASCII.", "query", "Percent-encode it as UTF-8.")
    if len(query) + len(path) > _MAX_TARGET:
        return Invalid("The request target is too long.", "path", f"Send at most {_MAX_TARGET} characters.")
    if not path.startswith("/"):
        return Invalid("The path does not begin with a slash.", "path", "Send an absolute path.", path)
    return None


async def _refuse(error: Invalid, send: Send) -> None:
    kind = problems.TABLE[Invalid]
    body = msgspec.json.encode(problems.body_of(error, kind))
    headers = [(b"content-type", problems.MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": kind.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
