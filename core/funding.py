"""A job's funding: its inputs in their place and its hold authorised, in steps that may be repeated.

The object exists before any of it, so whoever finds `Funded` Unknown later - the same gateway, another, the
scheduler - finishes with the same calls. A refusal is not remembered.

A job for which nothing is held needs no such steps: it is stored once, with its inputs in their place already. Who dies before
that leaves copies of uploads that belong to no object; they are swept as the uploads are that nobody has used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

from attrs import evolve

from core.arrears import owe
from core.house import House
from core.names import upload_key
from core.retention import is_output
from core.shortfall import shortfall
from ports.blobs import INPUTS, BlobInfo, input_key, job_prefix
from ports.credits import Account, HoldState, user_account
from ports.errors import CannotAfford, Conflict, Invalid, NotFound, OverBudget, Refused, Unavailable
from ports.workloads import FUNDED, BlobRef, Condition, ConditionStatus, Job, Phase


def nothing() -> None:
    return


def funded_at_once(house: House, job: Job, bring: Callable[[], None]) -> Job:
    """A new job with its inputs in their place and `Funded` True, which is not stored yet; nothing is held for it. bring: puts
    uploads where they are copied from, if they are not there.

    As it was, if an ended job of its id has left something: only who has the object may clear that away. Raises Invalid, and
    leaves nothing then.
    """
    there = [info.key for info in house.blobs.list(job_prefix(job.id))]
    if any(is_output(key) for key in there):
        bring()
        return job
    try:
        stage_inputs(house, job, there, bring)
    except Refused:
        unstage(house, job)
        raise
    return evolve(job, status=job.status.with_condition(FUNDED, ConditionStatus.TRUE, job.created_at, "NotBilled"))


def restaged(house: House, job: Job, bring: Callable[[], None]) -> Job:
    """What was funded at once, but took so long that its inputs may have been swept while it was no object yet: they are put in their
    place again, if they are gone. Raises Invalid if they can't be; the object is gone then."""
    if not job.status.holds(FUNDED):
        return job
    try:
        stage_inputs(house, job, [info.key for info in house.blobs.list(job_prefix(job.id))], bring)
    except Refused:
        try:
            house.workloads.delete(job)
        except Conflict:
            return job  # it has been taken up, and will say itself what it misses
        unstage(house, job)
        raise
    return job


def fund(house: House, job: Job) -> Job:
    """Make `Funded` True, or refuse. Raises CannotAfford or Invalid; the object is gone then.

    Raises Unavailable when a service does not answer: the object stays, Funded Unknown, and is taken up again. Raises
    Conflict if another one has withdrawn it meanwhile.
    """
    condition = job.status.condition(FUNDED)
    if condition is None or condition.status is ConditionStatus.TRUE:
        return job
    if condition.status is ConditionStatus.FALSE:
        withdraw(house, job)
        raise _refusal(condition)
    if job.leaving:
        return _refuse(house, job, Invalid("Its object was deleted before it was funded.", "", "Submit it again."))
    try:
        _authorise(house, job)  # first: who can't pay leaves no bytes behind
        stage_inputs(house, job, _cleared(house, job))
    except Refused as refusal:
        return _refuse(house, job, refusal)
    marked = _mark(house, job, ConditionStatus.TRUE, "Held" if job.spec.billed else "NotBilled")
    return fund(house, marked)  # True, unless another one has refused it


def _cleared(house: House, job: Job) -> frozenset[str]:
    """Take away what an ended job of the same id has left: chunks of its log would follow this one's, its manifest would tell
    of this one. Not what this one has left itself, if another one has funded it long ago. Gives all keys that were there."""
    found_there = tuple(house.blobs.list(job_prefix(job.id)))
    there = frozenset(info.key for info in found_there)
    left = [info for info in found_there if is_output(info.key)]
    if not left:
        return there
    fresh = house.workloads.get(job.id)
    if fresh is None or fresh.uid != job.uid or fresh.status.phase is not Phase.PENDING or fresh.status.holds(FUNDED):
        return there
    for info in left:
        found = house.blobs.stat(info.key)
        if found is not None and found.modified == info.modified:
            house.blobs.delete(info.key)
    return there


def stage_inputs(house: House, job: Job, there: Collection[str], bring: Callable[[], None] = nothing) -> None:
    """Put the uploads that the spec names where this very object has its inputs. Raises Invalid if one is not there any more.

    there: keys of the job of which one may have been staged before. bring: see `funded_at_once`.
    """
    spec = job.spec
    named = dict(zip(INPUTS, (spec.function, spec.args, spec.code, spec.env.working_dir), strict=True))
    for name, blob in named.items():
        if blob is None:
            continue
        key = input_key(job.id, job.uid, name)
        if key in there and _is_there(house, key, blob):
            continue
        stored = _copied(house, upload_key(spec.user, blob.sha256), key, bring)
        if stored is None:
            raise Invalid(
                f"{name} was not uploaded, or its upload has expired.", name, "POST /v1/uploads first, then submit again.", blob.sha256
            )
        if stored.size != blob.size:
            raise Invalid(
                f"{name} is {stored.size} bytes, not {blob.size}.", f"{name}.size", "Send the size of what you uploaded.", str(blob.size)
            )


def _copied(house: House, upload: str, key: str, bring: Callable[[], None]) -> BlobInfo | None:
    """None: there is no such upload, nor is it brought."""
    with suppress(NotFound):
        return house.blobs.copy(upload, key)
    bring()
    with suppress(NotFound):
        return house.blobs.copy(upload, key)
    return None


def unstage(house: House, job: Job) -> None:
    """Take away the inputs of this very object."""
    for name in INPUTS:
        house.blobs.delete(input_key(job.id, job.uid, name))


def _is_there(house: House, key: str, blob: BlobRef) -> bool:
    """Staged before, and whole."""
    found = house.blobs.stat(key)
    return found is not None and found.size == blob.size and found.sha256 in ("", blob.sha256)


def _authorise(house: House, job: Job) -> None:
    if not job.spec.billed:
        return
    answer = house.credits.authorise(job.uid, user_account(job.spec.user), job.spec.hold)
    if answer.state is not HoldState.OPEN:
        account: Account | None = None
        with suppress(Unavailable):  # it was asked for the hold, and has answered: whatever else it says is only to explain that
            account = house.credits.account(user_account(job.spec.user))
        raise shortfall(account, answer.need, answer.have, house.clock.now())


def _refuse(house: House, job: Job, refusal: Refused) -> Job:
    """Unknown -> False by compare-and-swap, so that nobody places it any more; then withdraw it and raise the refusal.

    Gives the job if another one was luckier meanwhile.
    """
    try:
        marked = _mark(house, job, ConditionStatus.FALSE, type(refusal).__name__, refusal.message)
    except Conflict:
        raise refusal from None  # another one has refused and withdrawn it
    if marked.status.holds(FUNDED):
        return marked
    withdraw(house, marked)
    raise refusal


def _refusal(condition: Condition) -> Refused:
    """What was refused earlier, by whoever did not get to say so."""
    if condition.reason in (CannotAfford.__name__, OverBudget.__name__):
        return CannotAfford(condition.message, "", "Top up, or ask for less.")
    return Invalid(condition.message, "", "Upload what the job names, then submit again.")


def withdraw(house: House, job: Job) -> None:
    """Take a job away that was never funded. Idempotent; raises Unavailable.

    The object goes last: until then somebody finds it and finishes. Another job of the same id may exist once it is gone;
    its hold and its inputs go by its own uid.
    """
    if job.spec.billed:
        _give_back(house, job)
    found = house.workloads.get(job.id)
    if found is None or found.uid != job.uid:
        return
    unstage(house, job)
    try:
        house.workloads.delete(found)
    except Conflict:
        return  # another one is at it, and finishes it the same way


def _give_back(house: House, job: Job) -> None:
    """Its hold, if there is one; of an object that was deleted meanwhile it may be owed instead."""
    try:
        house.credits.void(job.uid)
    except Unavailable:
        if not job.leaving:
            raise
        owe(house, job)


def _mark(house: House, job: Job, status: ConditionStatus, reason: str, message: str = "") -> Job:
    """Write that condition unless another one has decided before; gives what is stored then. Raises Conflict if it is gone."""
    while True:
        try:
            marked = job.status.with_condition(FUNDED, status, house.clock.now(), reason, message)
            return house.workloads.replace(evolve(job, status=marked))
        except Conflict:
            fresh = house.workloads.get(job.id)
            if fresh is None or fresh.uid != job.uid:
                raise
            found = fresh.status.condition(FUNDED)
            if found is None or found.status is not ConditionStatus.UNKNOWN:
                return fresh
            job = fresh  # only its cancel flag or its waiting text changed
