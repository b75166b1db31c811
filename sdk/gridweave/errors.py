"""The errors a caller may want to catch.

`Refused` means that the request cannot be as it stands, and says what would make it possible; nothing was started.
`Unavailable` means that the gateway did not answer in time; asking again later makes sense. `JobFailed` and `Cancelled`
tell how a job ended without a value. An exception that the user's function raised arrives as itself, not as one of these;
`RemoteError` stands in for one that cannot be rebuilt here, and for one of these that the function raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class GridweaveError(Exception):
    """Root of all errors of this package."""


class Refused(GridweaveError):
    """The request cannot be as it stands.

    kind: which refusal, as the gateway's problem type names it ("never-fits", "version-mismatch"; "cannot-send" if it was
    refused here, before anything was sent). status: the HTTP status, 0 if refused here. field and value: which part of the
    request is meant and what it was. remedy: what to do. facts: what else the gateway said.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str = "cannot-send",
        status: int = 0,
        field: str = "",
        value: str = "",
        remedy: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.kind, self.status = message, kind, status
        self.field, self.value, self.remedy = field, value, remedy
        self.facts: dict[str, Any] = dict(facts or {})

    def __str__(self) -> str:
        return " ".join(part for part in (sentence(self.message) if self.remedy else self.message, self.remedy) if part)


class WrongArguments(Refused, TypeError):
    """The function does not take these arguments; Python itself would raise TypeError. Nothing was sent."""


class NotFound(Refused):
    """There is no such job, or it is somebody else's."""


class Unavailable(GridweaveError):
    """The gateway does not answer, or cannot serve now. retry_after_s: when asking again makes sense, in seconds."""

    def __init__(self, message: str, retry_after_s: float = 5) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class JobFailed(GridweaveError):
    """The job ended without a result.

    kind: how its process ended ("Exited", "Signalled", "Killed", "SetupFailed", "RunnerLost", "NeverRan"). code: its exit
    code. signal: the name of the signal that ended it. oom: whether memory ran out. reason: why, in one word.
    log_tail: the last lines of its log. traceback: the remote one, as text.
    """

    def __init__(self, message: str, *, job_id: str = "", reason: str = "", exit: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        ended = exit or {}
        self.job_id, self.reason = job_id, reason
        self.kind: str = ended.get("kind") or ""
        self.code: int | None = ended.get("code")
        self.signal: str = ended.get("signal") or ""
        self.oom: bool = bool(ended.get("oom"))
        self.traceback: str = ended.get("traceback") or ""
        self.log_tail: str = ended.get("log_tail") or ""


class Cancelled(GridweaveError):
    """The job was cancelled, by its user or an administrator: its message says by whom."""

    def __init__(self, message: str, *, job_id: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.job_id, self.reason = job_id, reason


class RemoteError(GridweaveError):
    """The function raised an exception that cannot be rebuilt here, or one of this package. type, module: its class. traceback: as text."""

    def __init__(self, message: str, *, type: str = "", module: str = "", traceback: str = "") -> None:
        super().__init__(message)
        self.type, self.module, self.traceback = type, module, traceback


def sentence(text: str) -> str:
    """The text with a full stop, if it ends without any."""
    return f"{text}." if text and text.rstrip()[-1:] not in (".", "?", "!", ":", "…") else text
