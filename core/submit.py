"""Submit: validate, create the object, fund it.

The id is a hash of user and idempotency key, so the store's create-conflict is the lock: of a hundred submits
with one key, one creates and all get the same job. A job in the archive answers for its key too.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from core.archive import Archive
from core.callers import Caller, Plan
from core.exposure import check_exposure
from core.funding import fund, funded_at_once, nothing, restaged, unstage
from core.history import recall
from core.house import House
from core.inventory import Fleet
from core.names import job_id
from core.owners import SELF_HOST, pools
from core.quotes import Quote, check_fits, quote
from ports.credits import user_account
from ports.errors import AlreadyExists, Conflict, KeyReused, Refused, Unavailable, VersionMismatch
from ports.units import Credits, Rate, Span
from ports.workloads import FUNDED, Ask, BlobRef, ConditionStatus, Environment, Job, JobSpec, JobStatus

TRIES = 10


@frozen
class Submission:
    """What came in, well-formed. key: the idempotency key. body_sha256: tells a replay from another body. cap: of the cost."""

    name: str
    ask: Ask
    function: BlobRef
    args: BlobRef
    code: BlobRef | None
    env: Environment
    max_runtime: Span | None
    labels: dict[str, str]
    python: str
    cloudpickle: str
    key: str
    body_sha256: str
    cap: Credits | None = None


@frozen
class Submitted:
    """created: False if an earlier request with the same key made it. rate: of the dearest pool allowed."""

    job: Job
    created: bool
    rate: Rate


def submit(house: House, caller: Caller, submission: Submission, fleet: Fleet, bring: Callable[[], None] = nothing) -> Submitted:
    """bring: puts the inputs that came with the request where uploads are; called when the ask is not refused at sight.

    Raises Refused (what and why, nothing left behind) or Unavailable (retry with the same key).
    """
    for _ in range(TRIES):
        try:
            return _submit(house, caller, submission, fleet, bring)
        except Conflict:
            continue  # refused and withdrawn by another request just now: this one is the first again
    raise Unavailable("the store", "other requests with this idempotency key are being refused right now", 1)


def _submit(house: House, caller: Caller, submission: Submission, fleet: Fleet, bring: Callable[[], None]) -> Submitted:
    name, began = job_id(caller.user, submission.key), house.clock.elapsed()
    earlier = recall(house, name)
    if earlier is not None:
        return _replay(house, earlier, submission, fleet, bring)
    if house.terms.credits_enabled and submission.ask.owner != SELF_HOST:
        check_exposure(house, caller.user)
    caller = _as_known(house, caller)
    check_versions(house, fleet, submission.python, submission.cloudpickle)
    wanted = pools(caller.user, caller.plan, submission.ask.owner)
    check_fits(fleet, submission.ask, wanted)
    now = house.clock.now()
    given = quote(house, submission.ask, wanted, fleet, now)
    status = JobStatus().with_condition(FUNDED, ConditionStatus.UNKNOWN, now, "Authorising")
    job = Job(name, house.randomness.token(), now, _spec(caller, submission, given), status)
    try:
        created = _create(house, job, bring, began)
    except AlreadyExists:
        earlier = house.workloads.get(name)
        if earlier is None:
            raise
        return _replay(house, earlier, submission, fleet, bring)
    return Submitted(fund(house, created), True, given.rate)


def _spec(caller: Caller, submission: Submission, given: Quote) -> JobSpec:
    return JobSpec(
        user=caller.user,
        plan=caller.plan,
        name=submission.name,
        ask=submission.ask,
        function=submission.function,
        args=submission.args,
        code=submission.code,
        env=submission.env,
        max_runtime=submission.max_runtime,
        labels=submission.labels,
        python=submission.python,
        cloudpickle=submission.cloudpickle,
        body_sha256=submission.body_sha256,
        hold=given.hold,
        billed=given.billed,
        cap=submission.cap,
    )


def _create(house: House, job: Job, bring: Callable[[], None], began: Span) -> Job:
    """began: when the look for an earlier one was. Raises AlreadyExists, Conflict, Unavailable, and Invalid for inputs that are nowhere.

    Where nothing is held for the job, and its uid is known, it is funded with the same write.
    """
    at_once = not job.spec.billed and not house.workloads.draws_uids
    if at_once:
        job = funded_at_once(house, job, bring)
    else:
        bring()
    try:
        created = house.workloads.create(job)
    except (AlreadyExists, Refused):
        if at_once:
            unstage(house, job)
        raise
    took = house.clock.elapsed().ms - began.ms
    if took >= house.terms.archive_after.ms:
        _look_again(house, created)
    if at_once and took >= house.terms.funding_bound.ms:
        return restaged(house, created, bring)
    return created


def _as_known(house: House, caller: Caller) -> Caller:
    """With the plan that the credit service knows, where that is the narrower one."""
    if not house.terms.credits_enabled or caller.plan is Plan.FREE:
        return caller
    return caller.narrowed(house.credits.account(user_account(caller.user)).plan)


def _look_again(house: House, created: Job) -> None:
    """This request stood still for so long that another one with its key may have been done and archived since it looked.

    Raises Conflict then: its own object is gone again.
    """
    if Archive(house.blobs).get(created.id) is not None:
        house.workloads.delete(created)
        unstage(house, created)
        raise Conflict(created.id)


def check_versions(house: House, fleet: Fleet, python: str, cloudpickle: str) -> None:
    """A pickle travels only between the same Python minor version and cloudpickle major. Raises VersionMismatch.

    The cluster's are what its nodes have told; until one has, what the operator has set.
    """
    on_nodes = fleet.versions()
    their_python, their_cloudpickle = on_nodes[0] or house.terms.python, on_nodes[1] or house.terms.cloudpickle
    if python and their_python and python.split(".")[:2] != their_python.split(".")[:2]:
        ours = ".".join(their_python.split(".")[:2])
        raise VersionMismatch(
            f"Your Python is {python}, the cluster's is {their_python}: a function pickled by one can't run on the other.",
            "client.python",
            f"Submit from Python {ours}, for example: uv venv --python {ours}",
            f"Python {python}",
            f"Python {their_python}",
        )
    if cloudpickle and their_cloudpickle and cloudpickle.split(".")[0] != their_cloudpickle.split(".")[0]:
        major = their_cloudpickle.split(".")[0]
        raise VersionMismatch(
            f"Your cloudpickle is {cloudpickle}, the cluster's is {their_cloudpickle}: their major versions must agree.",
            "client.cloudpickle",
            f"pip install 'cloudpickle=={major}.*'",
            f"cloudpickle {cloudpickle}",
            f"cloudpickle {their_cloudpickle}",
        )


def _replay(house: House, earlier: Job, submission: Submission, fleet: Fleet, bring: Callable[[], None]) -> Submitted:
    if earlier.spec.body_sha256 != submission.body_sha256:
        raise KeyReused(
            f"The idempotency key {submission.key.removeprefix('k:')!r:.80} was used before with another body.",
            "Idempotency-Key",
            "Use a new key for a new request, or repeat the earlier request unchanged.",
        )
    if not earlier.status.holds(FUNDED):
        bring()
    wanted = pools(earlier.spec.user, earlier.spec.plan, earlier.spec.ask.owner)
    given = quote(house, earlier.spec.ask, wanted, fleet, house.clock.now())
    return Submitted(fund(house, earlier), False, given.rate)
