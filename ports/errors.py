"""Two families of errors, each carrying the facts that explain it.

`Refused`: the request cannot be; it says what would make it possible.
`Unavailable`: the world does not answer; asking again later is right, and nothing is lost.
`Conflict` is neither: it tells a writer that it decided on a stale reading and must decide anew.
"""

from __future__ import annotations

from attrs import field, frozen


class GridweaveError(Exception):
    """Root of all errors that a caller may want to catch."""


@frozen
class Refused(GridweaveError):
    """The request cannot be fulfilled as it stands.

    field: which part of the request is meant, as the caller named it; empty if none.
    remedy: what the caller can do about it.
    """

    message: str
    field: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.message, self.remedy) if part)


def _cut(value: object) -> str:
    return str(value)[:200]


@frozen
class Invalid(Refused):
    """A value is malformed or out of range. `value` is what came, as text, cut to 200 characters."""

    value: str = field(default="", converter=_cut)


@frozen
class NotFound(Refused):
    """There is no such object for this caller. `value`: what was asked for, as text, cut to 200 characters."""

    value: str = field(default="", converter=_cut)


@frozen
class Forbidden(Refused):
    """The caller lacks the role that this route needs, or what speaks for him is not believed. `value` as in `Invalid`."""

    value: str = field(default="", converter=_cut)


@frozen
class CannotAfford(Refused):
    """The balance less open holds does not cover the preflight amount. Both in micro-credits."""

    need: int = 0
    have: int = 0


@frozen
class OverBudget(CannotAfford):
    """The balance may cover it, what is left of the month's budget does not. month: such as "2026-11". cap, spent: of it, in
    micro-credits. resets: when it is over, in milliseconds since 1970."""

    month: str = ""
    cap: int = 0
    spent: int = 0
    resets: int = 0


@frozen
class NeverFits(Refused):
    """No GPU that this caller may use could ever hold the ask. `largest` in MiB, 0 if there is none."""

    largest: int = 0


@frozen
class VersionMismatch(Refused):
    """Client and cluster differ in a version that must agree."""

    client: str = ""
    cluster: str = ""


@frozen
class KeyReused(Refused):
    """The idempotency key came before with another body."""


@frozen
class Outdated(Refused):
    """What is to be changed is not any more what the caller has read. `newest`: the version that it has now."""

    newest: int = 0


@frozen
class StaleEpoch(Refused):
    """A scheduler of an older term gave a command. `newest` is the epoch that the other side has seen."""

    newest: int = 0


@frozen
class Conflict(GridweaveError):
    """The stored version is not the one that the writer read. Read again and decide again."""

    key: str

    def __str__(self) -> str:
        return f"{self.key} was changed by another writer"


@frozen
class AlreadyExists(Conflict):
    """An object of that key is stored already."""


@frozen
class IllegalTransition(GridweaveError):
    """A write would move a workload along no edge of the phase table: a bug in the writer."""

    key: str
    was: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.key}: {self.was} -> {self.wanted} is not allowed"


@frozen
class Unavailable(GridweaveError):
    """Something that we depend on does not answer. `retry_after_s`: when asking again makes sense."""

    what: str
    detail: str = ""
    retry_after_s: int = 5

    def __str__(self) -> str:
        return f"{self.what} is not available{': ' if self.detail else ''}{self.detail}"


@frozen
class Unreadable(Unavailable):
    """What is stored is in a form that this release can't read: a newer one wrote it, or it is damaged. It is left as it is, and
    whatever concerns it alone waits until it can be read."""


@frozen
class Exposed(Unavailable):
    """What a user has run and could not be charged is above the limit: nothing new is taken from him until it is.

    need: what he has run up. have: the limit. Both in micro-credits.
    """

    need: int = 0
    have: int = 0

    def __str__(self) -> str:
        return f"{self.what.capitalize()} has to wait: {self.detail}"
