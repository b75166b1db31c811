"""What a replay is fed with, and what became of each piece of it."""

from __future__ import annotations

from attrs import frozen

from core.charges import totals
from ports.tariffs import Price
from ports.units import Credits, Instant, Span
from ports.workloads import Ask, Placement


@frozen
class Submission:
    """A job as a trace knows it. id: unique; of two that come at one instant the lower goes first. ran: how long it
    runs once it is placed, wherever that is. user, plan: whose it is."""

    id: str
    at: Instant
    ran: Span
    ask: Ask
    user: str
    plan: str


@frozen
class Outcome:
    """Placed at an instant, for a price; or refused at once, and why. refusal: empty if it was placed."""

    submission: Submission
    booked_at: Instant | None = None
    placement: Placement = ()
    price: Price | None = None
    refusal: str = ""

    @property
    def waited(self) -> Span:
        """From submit to placement; 0 for a refused one."""
        return Span(0) if self.booked_at is None else self.booked_at - self.submission.at

    @property
    def ended_at(self) -> Instant | None:
        return None if self.booked_at is None else self.booked_at + self.submission.ran

    def earned(self, by: Instant | None = None) -> dict[str, Credits]:
        """What each account has earned from it by then, or (None) in the end."""
        if self.booked_at is None or self.price is None:
            return {}
        ran = self.submission.ran
        return totals(self.price, ran if by is None else min(ran, max(Span(0), by - self.booked_at)))


@frozen
class Moment:
    """The state after all that happened at one instant. booked: MiB. waiting, running: jobs."""

    at: Instant
    booked: int
    waiting: int
    running: int


@frozen
class Replayed:
    """outcomes: by arrival. moments: by time, one per instant. fleet: MiB of VRAM that there are."""

    outcomes: tuple[Outcome, ...]
    moments: tuple[Moment, ...]
    fleet: int
