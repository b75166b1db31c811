"""Server-sent events, and following a job's log with them.

The log is a sequence of bytes; every piece tells the offset after it. A broken connection is opened again from the offset
that was reached, so that no byte is lost and none comes twice.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gridweave.transport import BrokenStreamError, Patience, Transport

_SILENCE = 50.0  # seconds; the gateway pings every 15
_LINE = re.compile(rb"\r\n|\n|\r(?!\Z)")


@dataclass(frozen=True)
class Event:
    """One server-sent event. id: "" if it had none."""

    kind: str
    id: str
    data: str


@dataclass(frozen=True)
class LogPiece:
    """Bytes of the log, stdout and stderr as on a terminal. offset: the place after them."""

    data: bytes
    offset: int


@dataclass(frozen=True)
class State:
    """What the job is doing. position: in the queue, 0 if it does not wait."""

    phase: str
    waiting: str = ""
    position: int = 0
    setup: str = ""


@dataclass(frozen=True)
class End:
    """The job has ended, and the log with it."""

    phase: str
    reason: str = ""


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Parse a stream by the rules of text/event-stream; an unfinished last event is dropped, as these want."""
    buffer, kind, last_id, data = b"", "", "", list[str]()
    for chunk in chunks:
        *lines, buffer = _LINE.split(buffer + chunk)
        for line in lines:
            if line:
                name, _, value = line.decode("utf-8", "replace").partition(":")
                value = value.removeprefix(" ")
                kind = value if name == "event" else kind
                last_id = value if name == "id" else last_id
                data += [value] if name == "data" else []
            else:
                if data:
                    yield Event(kind or "message", last_id, "\n".join(data))
                kind, last_id, data = "", "", []


def follow(transport: Transport, job_id: str, offset: int = 0) -> Iterator[LogPiece | State | End]:
    """Everything that happens to a job until it has ended, resuming as often as needed.

    Raises Unavailable when the gateway stayed away for the transport's `retry_for`, Refused if there is no such job.
    """
    patience = Patience(transport.retry_for)
    while True:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(offset)}
        try:
            with transport.stream(f"/v1/jobs/{job_id}/logs", {"follow": "true", "offset": offset}, headers, _SILENCE) as response:
                for event in events(response.iter_bytes()):
                    patience.succeeded()
                    happened = _read(event, offset)
                    if isinstance(happened, LogPiece):
                        offset = happened.offset
                    if happened is not None:
                        yield happened
                    if isinstance(happened, End):
                        return
            raise BrokenStreamError(_ended_early())
        except BrokenStreamError as broken:
            patience.pause(broken.why, broken.at_most_s)


def _ended_early() -> Any:
    from gridweave.errors import Unavailable

    return Unavailable("The gateway closes the log's stream before its end.")


def _read(event: Event, reached: int) -> LogPiece | State | End | None:
    """What an event says; None if it is old or unknown."""
    facts = json.loads(event.data) if event.kind in ("log", "state", "end") else {}
    if event.kind == "state":
        return State(facts.get("phase") or "", facts.get("waiting") or "", int(facts.get("position") or 0), facts.get("setup") or "")
    if event.kind == "end":
        return End(facts.get("phase") or "", facts.get("reason") or "")
    if event.kind != "log":
        return None
    data = base64.b64decode(facts["base64"]) if "base64" in facts else str(facts.get("text", "")).encode("utf-8", "surrogateescape")
    after = int(event.id) if event.id.isdigit() else reached + len(data)
    seen = max(0, reached - (after - len(data)))
    return LogPiece(data[seen:], after) if seen < len(data) else None
