"""Arrears: a final charge that could not be posted is written down before its workload may go, and posted later.

The list lies in the blob store, one blob for each debt, because that is there wherever workloads are kept. Only what
has ended comes here: its totals are final, so whoever collects, and how often, posts the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from core.charges import final_charges
from core.house import House
from core.usage import FINAL, usages
from ports.arrears import SCHEMA, Debt
from ports.blob_keys import segment
from ports.blobs import BlobStore
from ports.credits import ChargeState, user_account
from ports.errors import NotFound, Unavailable
from ports.units import Credits, Instant
from ports.wire import dump, load
from ports.workloads import Job

PREFIX = "arrears/"


@frozen
class BlobArrears:
    """`ports.arrears.Arrears`."""

    blobs: BlobStore

    def add(self, debt: Debt) -> None:
        self.blobs.put(_key(debt), [dump(debt).encode("utf-8", "surrogatepass")])

    def debts(self) -> Iterator[Debt]:
        """One that can't be read is raised when all others are given: it must not keep them from being collected."""
        unreadable = list[Unavailable]()
        for info in self.blobs.list(PREFIX):
            try:
                found = _read(info.key, b"".join(self.blobs.get(info.key)))
            except NotFound:
                continue  # another one has just collected it
            except UnreadableError as error:
                unreadable.append(Unavailable("the list of arrears", str(error)))
                continue
            yield found
        if unreadable:
            raise unreadable[0]

    def remove(self, debt: Debt) -> None:
        self.blobs.delete(_key(debt))


def _key(debt: Debt) -> str:
    return f"{PREFIX}{segment(debt.uid)}.json"


class UnreadableError(Exception):
    """A stored debt is damaged, or was written by a newer release."""


def _read(key: str, data: bytes) -> Debt:
    try:
        debt = load(data.decode("utf-8", "surrogatepass"), Debt)
    except Exception as error:  # whatever a damaged form makes the converter raise
        raise UnreadableError(f"{key} can't be read: {type(error).__name__}") from error
    if debt.schema > SCHEMA:
        raise UnreadableError(f"a newer release wrote {key} (schema {debt.schema}); this one knows up to {SCHEMA}")
    return debt


def owe(house: House, job: Job) -> Debt:
    """Write down what an ended job owes. Raises Unavailable: then it must not go yet."""
    debt = Debt(job.uid, job.id, user_account(job.spec.user), final_charges(job), house.clock.now())
    BlobArrears(house.blobs).add(debt)
    return debt


@frozen
class Open:
    """The arrears as a whole. most: what they can come to; ticks may have posted a part of it. oldest: since when the oldest
    is owed, None if there are none."""

    debts: int = 0
    users: int = 0
    most: Credits = Credits(0)
    oldest: Instant | None = None


def open_arrears(blobs: BlobStore) -> Open:
    """Raises Unavailable, also for one that can't be read."""
    payers, found = set[str](), Open()
    for debt in BlobArrears(blobs).debts():
        payers.add(debt.payer)
        oldest = debt.since if found.oldest is None else min(found.oldest, debt.since)
        found = Open(found.debts + 1, len(payers), found.most + debt.most, oldest)
    return found


@frozen
class Refusal:
    """A charge that will never be taken: a bug somewhere. The debt stays, for a person to look at."""

    debt: Debt
    run: str
    why: str


@frozen
class Collected:
    """What one round did. paid: debts. refused: alarms."""

    paid: int = 0
    refused: tuple[Refusal, ...] = ()


def collect(house: House) -> Collected:
    """Post what is owed. Raises Unavailable; what is paid by then is paid, and the rest is asked for again."""
    arrears, paid, refused = BlobArrears(house.blobs), 0, list[Refusal]()
    for debt in arrears.debts():
        answers = house.credits.charge(debt.charges) if debt.charges else ()
        house.credits.void(debt.uid)
        if usage := usages(debt.charges, answers, FINAL, house.clock.now()):
            house.metering.record(usage)
        wrong = [
            Refusal(debt, str(charge.run), answer.detail)
            for charge, answer in zip(debt.charges, answers, strict=True)
            if answer.state is ChargeState.REFUSED
        ]
        refused += wrong
        if not wrong:
            arrears.remove(debt)
            paid += 1
    return Collected(paid, tuple(refused))
