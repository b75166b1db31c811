"""Refusals that only HTTP knows: sizes, content types, methods, versions of clients, and who is asking."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ports.errors import Refused


@frozen
class TooLarge(Refused):
    """The body is larger than what this route takes. limit: bytes."""

    limit: int = 0


@frozen
class TooSilent(Refused):
    """Of the body nothing has come for too long."""


@frozen
class WrongContentType(Refused):
    """The body is of a type or encoding that this route does not read."""

    value: str = ""


@frozen
class MethodNotAllowed(Refused):
    """The path exists, the method does not. allow: those that do."""

    allow: tuple[str, ...] = ()
    value: str = ""


@frozen
class RangeNotSatisfiable(Refused):
    """The range asked for starts after the end. size: bytes of the whole."""

    size: int = 0
    value: str = ""


@frozen
class Unauthenticated(Refused):
    """The request does not prove who is asking."""


@frozen
class UpgradeRequired(Refused):
    """The client's major version is not the server's."""

    client: str = ""
    server: str = ""


@frozen
class PreconditionRequired(Refused):
    """A write must say which version it changes."""


@frozen
class NoResult(Refused):
    """The job has ended without a result. exit, why: how, as in its status."""

    phase: str = ""
    reason: str = ""
    exit: Any = None
    why: str = ""
