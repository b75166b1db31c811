"""Submit: one key, one job; a refusal leaves nothing behind; whoever dies half-way is finished by somebody else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from attrs import evolve

from core.callers import Caller, Plan
from core.funding import fund
from core.house import Terms
from core.manifest import manifest_key
from core.names import job_id, upload_key
from core.retention import Retention
from core.submit import Submission, submit
from core.sweep import sweep
from ports.blobs import input_key, log_key, run_prefix
from ports.credits import user_account
from ports.errors import CannotAfford, Invalid, KeyReused, NeverFits, OverBudget, Refused, Unavailable, VersionMismatch
from ports.units import Credits, Span
from ports.workloads import FUNDED, BlobRef, ConditionStatus, Job, Phase
from tests.simulation.faults import Crash, Mode
from tests.simulation.services import digest
from tests.simulation.stage import ONE_NODE, Stage
from tests.simulation.world import TERMS

FREE_OF_CHARGE = evolve(TERMS, credits_enabled=False)
billed_or_not = pytest.mark.parametrize("terms", [TERMS, FREE_OF_CHARGE], ids=["billed", "free of charge"])
LABELLED_PROVIDER = (*ONE_NODE, ("n9", "provider:zoe", "H100", 80 * 1024, 1))


def nothing_is_left(stage: Stage, user: str, request: Submission) -> None:
    name = job_id(user, request.key)
    assert stage.jobs.get(name) is None
    assert Credits(0) == stage.money.account(user_account(user)).held
    assert [] == list(stage.blobs.list(f"jobs/{name}/"))


@billed_or_not
def test_an_accepted_submit_is_stored_funded_and_has_its_inputs_in_place(terms: Terms) -> None:
    """202 is a promise: whatever dies afterwards, the scheduler needs nothing of the gateway."""
    stage = Stage(terms=terms)
    done = stage.hand_in(Caller("ann"), stage.request())
    assert done.created
    job = stage.job(done.job.id)
    assert (Phase.PENDING, True) == (job.status.phase, job.status.holds(FUNDED))
    assert job.spec.hold == stage.money.account("user:ann").held
    assert stage.blobs.stat(input_key(job.id, job.uid, "function")) is not None
    assert stage.blobs.stat(input_key(job.id, job.uid, "args")) is not None


@billed_or_not
def test_the_same_key_and_body_give_the_same_job_however_often(terms: Terms) -> None:
    """A client that got no answer asks again."""
    stage = Stage(terms=terms)
    request = stage.request(key="k")
    first, second = stage.hand_in(Caller("ann"), request), stage.hand_in(Caller("ann"), request)
    assert (True, False) == (first.created, second.created)
    assert first.job.uid == second.job.uid
    assert first.rate == second.rate
    assert first.job.spec.hold == stage.money.account("user:ann").held


def test_a_key_of_another_user_is_another_key() -> None:
    stage = Stage()
    jobs = {stage.hand_in(Caller(user), stage.request(key="k")).job.id for user in ("ann", "bob")}
    assert 2 == len(jobs)


def test_the_same_key_with_another_body_is_refused_and_the_first_job_stays() -> None:
    """Else a typo in a client would return somebody the result of another request."""
    stage = Stage()
    first = stage.hand_in(Caller("ann"), stage.request(key="k", body="one"))
    with pytest.raises(KeyReused):
        stage.hand_in(Caller("ann"), stage.request(key="k", body="two"))
    assert first.job.uid == stage.job(first.job.id).uid


def test_a_replay_of_a_job_that_has_ended_gives_that_job() -> None:
    stage = Stage()
    request = stage.request(key="k")
    name = stage.hand_in(Caller("ann"), request).job.id
    stage.rounds(2)
    stage.ready(name)
    stage.rounds(2)
    stage.completed(name)
    again = stage.hand_in(Caller("ann"), request)
    assert (False, Phase.COMPLETED) == (again.created, again.job.status.phase)


@pytest.mark.parametrize(
    ("broken", "terms"),
    [("no money", TERMS), *((broken, terms) for broken in ("no upload", "other size") for terms in (TERMS, FREE_OF_CHARGE))],
)
def test_a_refusal_leaves_nothing_behind_and_is_not_remembered(broken: str, terms: Terms) -> None:
    """No object that somebody would have to clean up, no credits that nobody gives back, no bytes that nobody reads."""
    stage = Stage(terms=terms)
    poor = stage.user("poor", credits=0 if broken == "no money" else 100)
    request = stage.request()
    if broken == "no upload":
        request = evolve(request, args=BlobRef("f" * 64, 4))
    if broken == "other size":
        request = evolve(request, args=evolve(request.args, size=5))
    with pytest.raises(CannotAfford if broken == "no money" else Invalid) as refused:
        stage.hand_in(poor, request)
    assert refused.value.remedy
    nothing_is_left(stage, "poor", request)
    stage.user("poor2")  # money and bytes come
    stage.money.post("top-up", "grant", {"user:poor": Credits(10**9), "issue": Credits(-(10**9))})
    stage.blobs.put(upload_key("poor", "f" * 64), [b"args"])
    assert stage.hand_in(poor, evolve(request, args=evolve(request.args, size=4))).created


def test_who_cannot_pay_is_told_what_is_needed_and_what_there_is() -> None:
    stage = Stage()
    with pytest.raises(CannotAfford) as refused:
        stage.hand_in(stage.user("poor", credits=0), stage.request())
    assert 0 == refused.value.have
    assert refused.value.need > 0


@pytest.mark.parametrize(
    ("balance", "cap", "what"),
    [(9**7, 10**5, "The balance of 4.782969 is enough."), (120_000, 100_000, "would not be enough either"), (90_000, 100_000, "Top up")],
)
def test_a_budget_that_is_used_up_is_not_told_as_want_of_money(balance: int, cap: int, what: str) -> None:
    """Whoever tops up for it has paid for nothing."""
    stage = Stage()
    poor = stage.user("poor", credits=0)
    stage.money.post("top-up", "grant", {"user:poor": Credits(balance), "issue": Credits(-balance)})
    stage.money.set_cap("user:poor", Credits(cap))
    with pytest.raises(CannotAfford) as refused:
        stage.hand_in(poor, stage.request())
    assert what in refused.value.remedy
    assert ("Top up" not in what) == isinstance(refused.value, OverBudget)
    assert min(balance, cap) == refused.value.have < refused.value.need


def test_a_refused_versions_mismatch_says_both_versions() -> None:
    """A function pickled by one minor version of Python breaks in another in ways that nobody understands."""
    stage = Stage()
    for value, request in (
        ("3.12.1", evolve(stage.request(), python="3.12.1")),
        ("2.2.1", evolve(stage.request(), cloudpickle="2.2.1")),
    ):
        with pytest.raises(VersionMismatch) as refused:
            stage.hand_in(Caller("ann"), request)
        assert value in refused.value.client
        nothing_is_left(stage, "ann", request)


def test_a_patch_version_differs_freely() -> None:
    stage = Stage()
    assert stage.hand_in(Caller("ann"), evolve(stage.request(), python="3.11.99", cloudpickle="3.9.9")).created


def test_what_no_gpu_could_ever_hold_is_refused_with_the_largest_that_could() -> None:
    """Waiting for ever is the worst answer."""
    stage = Stage()
    with pytest.raises(NeverFits) as refused:
        stage.hand_in(Caller("ann"), stage.request(gb=41))
    assert 40 * 1024 == refused.value.largest


def test_what_would_fit_when_others_have_ended_is_accepted() -> None:
    stage = Stage()
    stage.running(40, gpus=2)
    assert stage.hand_in(Caller("ann"), stage.request(gb=40)).created


def test_a_free_user_is_refused_provider_hardware_in_words() -> None:
    stage = Stage(LABELLED_PROVIDER)
    with pytest.raises(Refused):
        stage.hand_in(Caller("ann"), stage.request(owner="provider:zoe"))
    with pytest.raises(NeverFits):
        stage.hand_in(Caller("ann"), stage.request(gb=80))
    assert stage.hand_in(stage.user("pat", plan=Plan.PAID), stage.request(gb=80)).created


def test_with_credits_off_nothing_is_held_and_the_job_runs() -> None:
    stage = Stage(terms=FREE_OF_CHARGE)
    poor = stage.user("poor", credits=0)
    name = stage.running(caller=poor)
    stage.completed(name)
    job = stage.job(name)
    assert (Phase.COMPLETED, Credits(0), Credits(0)) == (job.status.phase, job.spec.hold, job.status.charged)
    assert [] == [entry for entry in stage.money._journal if entry.kind == "charge"]


@billed_or_not
def test_of_many_submits_with_one_key_one_creates_and_all_get_its_job(terms: Terms) -> None:
    """The store's create-conflict is the lock; there is no other."""
    stage = Stage(terms=terms)
    request = stage.request(key="k")
    with ThreadPoolExecutor(16) as pool:
        done = list(pool.map(lambda _: stage.hand_in(Caller("ann"), request), range(64)))
    assert 1 == sum(each.created for each in done)
    assert {done[0].job.uid} == {each.job.uid for each in done}
    assert all(each.job.status.holds(FUNDED) for each in done)
    assert done[0].job.spec.hold == stage.money.account("user:ann").held
    inputs = {input_key(done[0].job.id, done[0].job.uid, name) for name in ("function", "args")}
    assert inputs == {info.key for info in stage.blobs.list(f"jobs/{done[0].job.id}/")}


def test_of_many_submits_with_one_key_that_nobody_can_pay_nothing_is_left() -> None:
    """They refuse one another's objects as well as their own."""
    stage = Stage()
    poor, request = stage.user("poor", credits=0), stage.request(key="k")

    def refused(_: int) -> bool:
        try:
            stage.hand_in(poor, request)
        except (CannotAfford, Unavailable):
            return True
        return False

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(refused, range(64)))
    nothing_is_left(stage, "poor", request)


def test_of_two_submits_for_the_last_credits_one_is_refused() -> None:
    """balance less open holds covers the amount, in one step."""
    stage = Stage()
    one = stage.hand_in(stage.user("rich"), stage.request()).job.spec.hold
    name = "barely"
    stage.user(name, credits=0)
    stage.money.post("just-enough", "grant", {f"user:{name}": one + Credits(1), "issue": -(one + Credits(1))})

    def accepted(_: int) -> bool:
        try:
            return stage.hand_in(Caller(name), stage.request()).created
        except CannotAfford:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert 1 == sum(pool.map(accepted, range(8)))


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER, Mode.LOST, Mode.REFUSED])
@pytest.mark.parametrize("retried", [True, False])
@billed_or_not
def test_a_submit_that_died_anywhere_is_finished_by_a_retry_or_by_the_scheduler(terms: Terms, mode: Mode, retried: bool) -> None:
    """Between any two steps the gateway may be killed; one job comes of it at most, with one hold, and it runs."""
    died = 0
    for at in range(1, 40):
        stage = Stage(terms=terms)
        request = stage.request(key="k")
        stage.faults.fuse, stage.faults.blows = at, mode
        try:
            stage.hand_in(Caller("ann"), request)
        except (Crash, Unavailable):
            died += 1
        blown, stage.faults.fuse = stage.faults.fuse == 0, 0
        if retried:
            assert stage.hand_in(Caller("ann"), request).job.status.holds(FUNDED)
        stage.clock.ms += TERMS.funding_bound.ms + 1
        stage.rounds(5, ms=1_000)
        jobs = stage.stored()
        assert len(jobs) <= 1
        assert sum((job.spec.hold for job in jobs), Credits(0)) == stage.money.account("user:ann").held
        assert all(job.status.phase is Phase.ALLOCATED for job in jobs)
        if not blown:
            break
    assert died > 5


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER, Mode.LOST, Mode.REFUSED])
def test_a_refusal_that_died_anywhere_is_finished_by_the_scheduler(mode: Mode) -> None:
    """Else the hold or the half-made object of a dead gateway would stay for ever."""
    died = 0
    for at in range(1, 60):
        stage = Stage()
        poor = stage.user("poor", credits=100)
        request = evolve(stage.request(key="k"), args=BlobRef("f" * 64, 4))
        stage.faults.fuse, stage.faults.blows = at, mode
        try:
            stage.hand_in(poor, request)
        except (Crash, Unavailable):
            died += 1
        except Invalid:
            pass
        blown, stage.faults.fuse = stage.faults.fuse == 0, 0
        stage.clock.ms += TERMS.funding_bound.ms + 1
        stage.rounds(6, ms=2_100)
        nothing_is_left(stage, "poor", request)
        if not blown:
            break
    assert died > 5


def test_a_job_that_was_refused_by_another_one_is_told_why() -> None:
    """The gateway that decided died before it could say so."""
    stage = Stage(started=False)
    for text, status, error in (("CannotAfford", ConditionStatus.FALSE, CannotAfford), ("Invalid", ConditionStatus.FALSE, Invalid)):
        request = stage.request()
        job = stage.hand_in(Caller("ann"), request).job
        marked = job.status.with_condition(FUNDED, status, stage.clock.now(), text, "because")
        stage.jobs.replace(evolve(job, status=marked))
        with pytest.raises(error, match="because"):
            stage.hand_in(Caller("ann"), request)
        nothing_is_left(stage, "ann", request)


def test_a_refusal_that_slept_takes_nothing_from_the_job_that_its_key_made_since() -> None:
    """Its gateway was paused before it cleared away; meanwhile the key was refused to the end, and then accepted."""
    stage = Stage()
    ann, data = Caller("ann"), b"not uploaded at first"
    request = evolve(stage.request(), args=BlobRef(digest(data), len(data)))
    stage.faults.armed["blobs.delete"] = Mode.PAUSE
    sleeper = stage.faults.start(lambda: stage.hand_in(ann, request))
    assert sleeper is not None
    with pytest.raises(Invalid):
        stage.hand_in(ann, request)
    stage.blobs.put(upload_key("ann", digest(data)), [data])
    job = stage.hand_in(ann, request).job
    with pytest.raises(Invalid):
        sleeper.resume()
    stage.rounds(2)
    assert Phase.ALLOCATED == stage.phase(job.id)
    assert data == b"".join(stage.blobs.get(input_key(job.id, job.uid, "args")))
    assert stage.blobs.stat(input_key(job.id, job.uid, "function")) is not None


@billed_or_not
def test_bytes_that_an_earlier_job_of_the_same_key_left_are_not_taken_for_its_inputs(terms: Terms) -> None:
    """The id is that of the key, and a job may be refused and accepted later."""
    stage = Stage(terms=terms)
    request = stage.request(key="k")
    name = job_id("ann", "k")
    stage.blobs.put(input_key(name, "another", "function"), [b"something else"])
    job = stage.hand_in(Caller("ann"), request).job
    assert request.function.sha256 == digest(b"".join(stage.blobs.get(input_key(name, job.uid, "function"))))


def test_a_hold_covers_the_preflight_time_of_the_dearest_pool() -> None:
    stage = Stage()
    done = stage.hand_in(Caller("ann"), stage.request())
    assert done.rate.prorate_ceil(Span.of(minutes=1)) == done.job.spec.hold


@billed_or_not
def test_what_an_ended_job_of_that_id_has_left_is_not_the_next_ones(terms: Terms) -> None:
    """Chunks of its log would follow the next one's own, and its manifest would tell of it."""
    stage, request = Stage(terms=terms), Stage(terms=terms).request(key="again")
    first = stage.hand_in(Caller("ann"), request).job
    mine = [*(log_key(first.id, attempt, 0, n) for attempt in (1, 2) for n in range(3)), f"{run_prefix(first.id, 1)}result"]
    for key in (*mine, manifest_key(first.id)):
        stage.blobs.put(key, [b"of the first"])
    stage.house.workloads.delete(stage.job(first.id))
    second = stage.hand_in(Caller("ann"), request).job
    assert second.uid != first.uid
    left = {info.key for info in stage.blobs.list(f"jobs/{first.id}/")}
    assert {input_key(first.id, job.uid, name) for job in (first, second) for name in ("function", "args")} == left


def test_a_late_funding_takes_nothing_of_a_run_away() -> None:
    """A gateway that stood still goes on where it was, when the job has long been funded and runs."""
    stage = Stage()
    job = stage.hand_in(Caller("ann"), stage.request()).job
    early = evolve(job, status=job.status.with_condition(FUNDED, ConditionStatus.UNKNOWN, stage.clock.now(), "Authorising"))
    key = log_key(job.id, 1, 0, 0)
    stage.blobs.put(key, [b"its own"])
    assert fund(stage.house, early).status.holds(FUNDED)
    assert stage.blobs.stat(key) is not None


def test_what_is_not_billed_is_stored_funded_in_one_write() -> None:
    """Nothing is held for it, so nobody has to finish it; a reader never sees it half done."""
    stage, seen = Stage(terms=FREE_OF_CHARGE), list[Job]()
    inner = stage.house.workloads

    class Seen:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def create(self, job: Job) -> Job:
            seen.append(job)
            return inner.create(job)

    house = evolve(stage.house, workloads=Seen())  # type: ignore[arg-type]
    made = submit(house, Caller("ann"), stage.request(), stage.fleet()).job
    assert [made.uid] == [job.uid for job in seen]
    assert seen[0].status.holds(FUNDED)
    assert seen[0].status == made.status == stage.job(made.id).status


def test_a_store_that_draws_uids_itself_gets_the_object_before_the_inputs() -> None:
    """Where they have their place is not known before."""
    stage = Stage(terms=FREE_OF_CHARGE)
    inner = stage.house.workloads

    class Drawing:
        draws_uids = True

        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        def create(self, job: Job) -> Job:
            return inner.create(evolve(job, uid="of-the-store"))

    house = evolve(stage.house, workloads=Drawing())  # type: ignore[arg-type]
    made = submit(house, Caller("ann"), stage.request(), stage.fleet()).job
    assert ("of-the-store", True) == (made.uid, made.status.holds(FUNDED))
    assert {input_key(made.id, made.uid, name) for name in ("function", "args")} == {
        info.key for info in stage.blobs.list(f"jobs/{made.id}/")
    }


def test_inputs_that_are_there_already_are_not_brought_again() -> None:
    """Who submits the same function a thousand times sends its bytes to the store once."""
    stage, brought = Stage(terms=FREE_OF_CHARGE), list[int]()
    data = b"new"
    request = evolve(stage.request(), args=BlobRef(digest(data), len(data)))

    def bring() -> None:
        brought.append(1)
        stage.blobs.put(upload_key("ann", digest(data)), [data])

    for key in ("one", "two"):
        submit(stage.house, Caller("ann"), evolve(request, key=key), stage.fleet(), bring)
    assert 1 == len(brought)


class Before:
    """A store that lets something happen before one of its calls."""

    def __init__(self, inner: object, call: str, happen: Callable[[], None], at: int = 1) -> None:
        self._inner, self._call, self._happen, self._left = inner, call, happen, at

    def __getattr__(self, name: str) -> object:
        if name == self._call:
            self._left -= 1
            if self._left == 0:
                self._happen()
        return getattr(self._inner, name)


@pytest.mark.parametrize("brings", [True, False], ids=["inline", "uploaded"])
@pytest.mark.parametrize(("port", "call", "at"), [("blobs", "copy", 2), ("workloads", "create", 1)])
def test_a_submit_that_stood_still_for_days_has_its_inputs_or_is_refused(port: str, call: str, at: int, brings: bool) -> None:
    """While it is no object yet, what it has put in place belongs to nobody, and is swept."""
    day = Span.of(hours=24)
    stage = Stage(terms=evolve(FREE_OF_CHARGE, retention=Retention(day, day, day)))
    request = stage.request()

    def swept() -> None:
        stage.clock.ms += 2 * day.ms
        sweep(stage.house)

    def bring() -> None:
        if brings:
            stage.user("ann")

    changed: dict[str, Any] = {port: Before(getattr(stage.house, port), call, swept, at)}
    house = evolve(stage.house, **changed)
    if brings:
        made = submit(house, Caller("ann"), request, stage.fleet(), bring).job
        there = {info.key for info in stage.blobs.list(f"jobs/{made.id}/")}
        assert {input_key(made.id, made.uid, name) for name in ("function", "args")} == there
    else:
        with pytest.raises(Invalid, match="has expired"):
            submit(house, Caller("ann"), request, stage.fleet(), bring)
        nothing_is_left(stage, "ann", request)


def test_tries_that_a_store_does_not_take_leave_inputs_for_no_longer_than_uploads() -> None:
    """A client tries again for as long as the disk of the store is full."""
    stage = Stage(terms=FREE_OF_CHARGE)
    request = stage.request(key="k")
    for _ in range(5):
        stage.faults.armed["store.create"] = Mode.REFUSED
        with pytest.raises(Unavailable):
            stage.hand_in(Caller("ann"), request)
    prefix = f"jobs/{job_id('ann', 'k')}/"
    stage.clock.ms += Span.of(hours=23).ms
    sweep(stage.house)
    assert list(stage.blobs.list(prefix))
    stage.clock.ms += Span.of(hours=2).ms
    sweep(stage.house)
    assert [] == list(stage.blobs.list(prefix))


def test_who_loses_the_create_takes_away_what_it_has_put_in_place() -> None:
    """Its job is the other one's; inputs of an object that was never made belong to nobody."""
    stage = Stage(terms=FREE_OF_CHARGE)
    ann, request = Caller("ann"), stage.request(key="k")
    other: list[str] = []
    changed: Any = Before(stage.house.workloads, "create", lambda: other.append(stage.hand_in(ann, request).job.uid))
    done = submit(evolve(stage.house, workloads=changed), ann, request, stage.fleet())
    assert (False, other) == (done.created, [done.job.uid])
    there = {info.key for info in stage.blobs.list(f"jobs/{done.job.id}/")}
    assert {input_key(done.job.id, done.job.uid, name) for name in ("function", "args")} == there
