"""Exposure: at most what a user owes that could not be charged, while the credit service is away or his arrears are open.

The biller reckons it at the end of each round, since it alone reads what runs and for how long, and leaves it in the blob
store, beside the arrears. Whoever takes or places new work reads it there. Above the limit a user's new work waits; what
runs goes on. It is a bound on risk and no bill: it is reckoned by the wall clock, and always up rather than down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from core.arrears import BlobArrears
from core.charges import cost
from core.house import House
from ports.arrears import Debt
from ports.blobs import BlobStore
from ports.credits import user_account
from ports.errors import Exposed, NotFound
from ports.units import Credits, Instant, Span
from ports.wire import dump, load
from ports.workloads import Job, Run, RunState

KEY = "billing/standing.json"
RETRY_S = 15


@frozen
class Standing:
    """What the newest billing round left. taken: when the newest round began whose charges were all taken, None before the
    first. away: why the newest round was cut short, "" if it was not. exposed: by user; who is not in it owes nothing."""

    at: Instant
    taken: Instant | None = None
    away: str = ""
    exposed: dict[str, Credits] = field(factory=dict)

    def over(self, user: str, limit: Credits) -> Credits | None:
        """That user's exposure if it is above the limit."""
        found = self.exposed.get(user, Credits(0))
        return found if found > limit else None


NOTHING = Standing(Instant(0))


def standing(blobs: BlobStore) -> Standing:
    """Raises Unavailable. One that can't be read is none: the next round writes another."""
    try:
        data = b"".join(blobs.get(KEY))
    except NotFound:
        return NOTHING
    try:
        return load(data.decode("utf-8", "surrogatepass"), Standing)
    except Exception:  # whatever a damaged form, or a newer release's, makes the converter raise
        return NOTHING


def note_taken(house: House, began: Instant, left: Iterable[Debt]) -> None:
    """Every charge of the round that began then was taken. left: debts that are still open. Raises Unavailable."""
    _put(house, Standing(house.clock.now(), began, "", _owed(left)))


def note_cut_short(house: House, jobs: Iterable[Job], ran: Mapping[str, Span], why: str) -> None:
    """jobs: that run, or have ended and are not settled. ran: by run, as text, as the nodes have told. Raises Unavailable."""
    taken, now = standing(house.blobs).taken, house.clock.now()
    exposed = _owed(BlobArrears(house.blobs).debts())
    for job in jobs:
        if job.spec.billed:
            grown = sum((_run_up(run, ran.get(str(run.id), Span(0)), taken, now).micro for run in job.status.runs), 0)
            if grown:
                exposed[job.spec.user] = exposed.get(job.spec.user, Credits(0)) + Credits(grown)
    _put(house, Standing(now, taken, why[:200], exposed))


def _run_up(run: Run, told: Span, taken: Instant | None, now: Instant) -> Credits:
    """What a run has cost since then; all of it if no round was ever taken."""
    ran = run.ran if run.state is RunState.ENDED else max(run.ran, told)
    if taken is None:
        return cost(run.price, ran)
    since = max(Span(0), (run.ended_at or now) - taken)
    return cost(run.price, ran) - cost(run.price, max(Span(0), ran - since))


def _owed(debts: Iterable[Debt]) -> dict[str, Credits]:
    found: dict[str, Credits] = {}
    for debt in debts:
        user = debt.payer.removeprefix(user_account(""))
        found[user] = found.get(user, Credits(0)) + debt.most
    return found


def _put(house: House, made: Standing) -> None:
    house.blobs.put(KEY, [dump(made).encode("utf-8", "surrogatepass")])


def check_exposure(house: House, user: str) -> None:
    """Raises Exposed if nothing new may be taken from that user now, Unavailable."""
    limit = house.terms.exposure_limit
    found = standing(house.blobs).over(user, limit)
    if found is not None:
        raise Exposed("new work", said(found, limit), RETRY_S, found.micro, limit.micro)


WAITS = "Waits until what has run is charged: "


def said(exposed: Credits, limit: Credits) -> str:
    """Need, have, and the way out."""
    return (
        f"up to {exposed} credits of what you have run could not be charged yet, and at most {limit} may be."
        " What runs goes on. New work is taken again after the first billing round that the credit service answers."
    )
