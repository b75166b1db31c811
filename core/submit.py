"""Submit: validate, create the object, fund it.

The id is a hash of user and idempotency key, so the store's create-conflict is the lock: of a hundred submits
with one key, one creates and all get the same job.
"""

from __future__ import annotations

from attrs import frozen

from core.callers import Caller
from core.fleet import Fleet
from core.funding import fund
from core.house import House
from core.names import job_id
from core.owners import pools
from core.quotes import check_fits, quote
from ports.errors import AlreadyExists, KeyReused, VersionMismatch
from ports.units import Rate, Span
from ports.workloads import FUNDED, Ask, BlobRef, ConditionStatus, Environment, Job, JobSpec, JobStatus


@frozen
class Submission:
    """What came in, well-formed. key: the idempotency key. body_sha256: tells a replay from another body."""

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


@frozen
class Submitted:
    """created: False if an earlier request with the same key made it. rate: of the dearest pool allowed."""

    job: Job
    created: bool
    rate: Rate


def submit(house: House, caller: Caller, submission: Submission, fleet: Fleet) -> Submitted:
    """Raises Refused (what and why, nothing left behind) or Unavailable (retry with the same key)."""
    name = job_id(caller.user, submission.key)
    earlier = house.workloads.get(name)
    if earlier is not None:
        return _replay(house, earlier, submission, fleet)
    check_versions(house, submission.python, submission.cloudpickle)
    wanted = pools(caller.user, caller.plan, submission.ask.owner)
    check_fits(fleet, submission.ask, wanted)
    now = house.clock.now()
    given = quote(house, submission.ask, wanted, fleet, now)
    spec = JobSpec(
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
    )
    status = JobStatus().with_condition(FUNDED, ConditionStatus.UNKNOWN, now, "Authorising")
    try:
        created = house.workloads.create(Job(name, house.randomness.token(), now, spec, status))
    except AlreadyExists:
        earlier = house.workloads.get(name)
        if earlier is None:  # refused and withdrawn by the other request just now: this one is the first again
            return submit(house, caller, submission, fleet)
        return _replay(house, earlier, submission, fleet)
    return Submitted(fund(house, created), True, given.rate)


def check_versions(house: House, python: str, cloudpickle: str) -> None:
    """A pickle travels only between the same Python minor version and cloudpickle major. Raises VersionMismatch."""
    terms = house.terms
    if python and terms.python and python.split(".")[:2] != terms.python.split(".")[:2]:
        ours = ".".join(terms.python.split(".")[:2])
        raise VersionMismatch(
            f"Your Python is {python}, the cluster's is {terms.python}: a function pickled by one can't run on the other.",
            "client.python",
            f"Submit from Python {ours}, for example: uv venv --python {ours}",
            f"Python {python}",
            f"Python {terms.python}",
        )
    if cloudpickle and terms.cloudpickle and cloudpickle.split(".")[0] != terms.cloudpickle.split(".")[0]:
        major = terms.cloudpickle.split(".")[0]
        raise VersionMismatch(
            f"Your cloudpickle is {cloudpickle}, the cluster's is {terms.cloudpickle}: their major versions must agree.",
            "client.cloudpickle",
            f"pip install 'cloudpickle=={major}.*'",
            f"cloudpickle {cloudpickle}",
            f"cloudpickle {terms.cloudpickle}",
        )


def _replay(house: House, earlier: Job, submission: Submission, fleet: Fleet) -> Submitted:
    if earlier.spec.body_sha256 != submission.body_sha256:
        raise KeyReused(
            f"The idempotency key {submission.key!r:.80} was used before with another body.",
            "Idempotency-Key",
            "Use a new key for a new request, or repeat the earlier request unchanged.",
        )
    wanted = pools(earlier.spec.user, earlier.spec.plan, earlier.spec.ask.owner)
    given = quote(house, earlier.spec.ask, wanted, fleet, house.clock.now())
    return Submitted(fund(house, earlier), False, given.rate)
