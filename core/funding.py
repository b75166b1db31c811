"""A job's funding: its inputs in their place and its hold authorised, in steps that may be repeated.

The object exists before any of it, so whoever finds `Funded` Unknown later - the same gateway, another, the
scheduler - finishes with the same calls. A refusal is not remembered.
"""

from __future__ import annotations

from attrs import evolve

from core.house import House
from core.names import upload_key
from ports.blobs import INPUTS, input_key
from ports.credits import HoldState, user_account
from ports.errors import CannotAfford, Conflict, Invalid, NotFound, Refused
from ports.workloads import FUNDED, ConditionStatus, Job


def fund(house: House, job: Job) -> Job:
    """Make `Funded` True, or refuse. Raises CannotAfford or Invalid; the object is gone then.

    Raises Unavailable when a service does not answer; the object stays, Funded Unknown, and is taken up again.
    """
    condition = job.status.condition(FUNDED)
    if condition is None or condition.status is ConditionStatus.TRUE:
        return job
    if condition.status is ConditionStatus.FALSE:
        withdraw(house, job)
        raise CannotAfford(condition.message, "", "Top up, or ask for less.")
    try:
        stage_inputs(house, job)
        _authorise(house, job)
    except Refused as refusal:
        _refuse(house, job, refusal)
        raise
    return _mark(house, job, ConditionStatus.TRUE, "Held" if job.spec.billed else "NotBilled")


def stage_inputs(house: House, job: Job) -> None:
    """Put the uploads that the spec names at `jobs/<id>/`. Raises Invalid if one was never uploaded or has expired."""
    spec = job.spec
    named = dict(zip(INPUTS, (spec.function, spec.args, spec.code, spec.env.working_dir), strict=True))
    for name, blob in named.items():
        if blob is None or house.blobs.stat(input_key(job.id, name)) is not None:
            continue
        try:
            stored = house.blobs.copy(upload_key(spec.user, blob.sha256), input_key(job.id, name))
        except NotFound as error:
            raise Invalid(
                f"{name} was not uploaded, or its upload has expired.", name, "POST /v1/uploads first, then submit again.", blob.sha256
            ) from error
        if stored.size != blob.size:
            raise Invalid(
                f"{name} is {stored.size} bytes, not {blob.size}.", f"{name}.size", "Send the size of what you uploaded.", str(blob.size)
            )


def _authorise(house: House, job: Job) -> None:
    if not job.spec.billed:
        return
    answer = house.credits.authorise(job.uid, user_account(job.spec.user), job.spec.hold)
    if answer.state is not HoldState.OPEN:
        raise CannotAfford(
            f"This needs {answer.need} credits set aside, and {answer.have} are available.",
            "",
            "Top up, ask for less VRAM, or wait until running jobs have given their holds back.",
            answer.need.micro,
            answer.have.micro,
        )


def _refuse(house: House, job: Job, refusal: Refused) -> None:
    """Unknown -> False by compare-and-swap, so that nobody places it any more; then withdraw it."""
    try:
        marked = _mark(house, job, ConditionStatus.FALSE, type(refusal).__name__, refusal.message)
    except Conflict:
        return  # another one is at it, and settles it the same way
    withdraw(house, marked)


def withdraw(house: House, job: Job) -> None:
    """Take a job away that was never funded. Idempotent; raises Unavailable."""
    if job.spec.billed:
        house.credits.void(job.uid)
    try:
        house.workloads.delete(job)
    except Conflict:
        return
    for name in INPUTS:
        house.blobs.delete(input_key(job.id, name))


def _mark(house: House, job: Job, status: ConditionStatus, reason: str, message: str = "") -> Job:
    try:
        return house.workloads.replace(evolve(job, status=job.status.with_condition(FUNDED, status, house.clock.now(), reason, message)))
    except Conflict:
        fresh = house.workloads.get(job.id)
        found = fresh.status.condition(FUNDED) if fresh is not None and fresh.uid == job.uid else None
        if fresh is not None and found is not None and found.status is ConditionStatus.UNKNOWN:
            return _mark(house, fresh, status, reason, message)  # only its cancel flag or its waiting text changed
        if fresh is not None and found is not None and found.status is status:
            return fresh
        raise
