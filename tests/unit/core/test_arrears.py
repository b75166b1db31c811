"""Arrears: whoever deletes an object does not wait for the credit service, and pays all the same, once."""

from __future__ import annotations

import pytest
from attrs import evolve

from core.arrears import PREFIX, BlobArrears, collect, owe
from core.charges import cost
from core.close import close
from core.funding import fund
from core.tick import tick
from ports.arrears import Debt
from ports.credits import Charge, ChargeAnswer, ChargeState, HoldState, user_account
from ports.errors import Invalid, Unavailable
from ports.units import Credits, Instant, Span
from ports.workloads import CHARGED, FUNDED, HOLD_VOIDED, ConditionStatus, Job, JobStatus, Phase
from tests.contract.samples import a_charge
from tests.memory.blobs import MemoryBlobs
from tests.memory.clock import ManualClock
from tests.memory.credits import MemoryCredits
from tests.simulation.faults import Crash, Mode
from tests.simulation.stage import Stage

RAN = Span(90_000)


def leaving(stage: Stage) -> Job:
    """It has run and is to be settled, and its object was deleted while the credit service is away."""
    job = stage.running()
    stage.clock.ms += RAN.ms
    stage.end(job)
    stage.uploaded(job)
    stage.faults.down |= {"credits"}
    stage.rounds(3)
    found = stage.job(job)
    assert Phase.CLOSING is found.status.phase
    return evolve(found, leaving=True)


def paid(stage: Stage) -> Credits:
    return sum((entry.amount for entry in stage.money._journal if entry.account == "user:ann" and entry.kind == "charge"), Credits(0))


def owed(stage: Stage) -> list[Debt]:
    return list(BlobArrears(stage.blobs).debts())


def test_what_leaves_while_the_credit_service_is_away_owes_and_pays_once_it_is_back() -> None:
    """A finalizer that waits for another service may wait for ever; a run that nobody pays for is a gift."""
    stage = Stage()
    job = leaving(stage)
    done = close(stage.house, job)
    assert (Phase.COMPLETED, "InArrears") == (done.status.phase, getattr(done.status.condition(CHARGED), "reason", ""))
    assert not done.status.holds(HOLD_VOIDED)
    assert done.status.run is not None
    price = cost(done.status.run.price, RAN)
    assert [(job.uid, job.id, "user:ann", price)] == [(each.uid, each.workload, each.payer, each.most) for each in owed(stage)]
    assert Credits(0) == paid(stage)
    stage.faults.down.clear()
    for expected in (1, 0):
        assert expected == tick(stage.house).arrears
        assert -price == paid(stage)
    assert [] == owed(stage)
    assert Credits(0) == stage.money.account("user:ann").held


def test_what_stays_waits_for_the_credit_service() -> None:
    """Its user sees the price when it says Completed."""
    stage = Stage()
    job = leaving(stage)
    with pytest.raises(Unavailable):
        close(stage.house, evolve(job, leaving=False))
    assert [] == owed(stage)


@pytest.mark.parametrize("mode", [Mode.CRASH, Mode.CRASH_AFTER, Mode.LOST, Mode.REFUSED])
def test_a_collector_that_died_anywhere_charges_once(mode: Mode) -> None:
    """Whatever it had done by then is done again, and changes nothing."""
    for at in range(1, 10):
        stage = Stage()
        done = close(stage.house, leaving(stage))
        stage.faults.down.clear()
        stage.faults.fuse, stage.faults.blows = at, mode
        try:
            collect(stage.house)
        except (Crash, Unavailable):
            stage.faults.fuse = 0
            collect(stage.house)
        blown, stage.faults.fuse = stage.faults.fuse == 0, 0
        assert done.status.run is not None
        assert (-cost(done.status.run.price, RAN), []) == (paid(stage), owed(stage))
        if not blown:
            return
    pytest.fail("it has more steps than this test tries")


def test_a_charge_that_is_refused_stays_and_is_told() -> None:
    """A bug somewhere must not look like a bill that was paid."""
    stage = Stage()
    close(stage.house, leaving(stage))

    class Odd(MemoryCredits):
        def charge(self, charges: object) -> tuple[ChargeAnswer, ...]:
            return (ChargeAnswer(ChargeState.REFUSED, Credits(0), Credits(7), "a total is lower than before"),)

    for _ in range(2):
        found = collect(evolve(stage.house, credits=Odd(stage.clock)))
        assert (0, ["a total is lower than before"]) == (found.paid, [each.why for each in found.refused])


def test_a_debt_that_can_not_be_read_holds_up_no_other() -> None:
    """It is for a person to look at; the rest is collected."""
    blobs = MemoryBlobs(ManualClock())
    arrears, debt = BlobArrears(blobs), Debt("uid-2", "job-2", "user:bob", (a_charge(5, org=3),), Instant(1))
    blobs.put(f"{PREFIX}a.json", [b"{"])
    arrears.add(evolve(debt, uid="uid-1", schema=99))
    arrears.add(debt)
    found = arrears.debts()
    assert debt == next(found)
    with pytest.raises(Unavailable, match=r"a\.json can't be read"):
        next(found)


@pytest.mark.parametrize("uid", ["../../etc", "", "x-1", "ünïcode", "a/b", "\ud800", "n" * 300])
def test_any_uid_is_a_key_of_its_own(uid: str) -> None:
    """Kubernetes gives them; nothing here may depend on how they look."""
    arrears = BlobArrears(MemoryBlobs(ManualClock()))
    debt = Debt(uid, "job-1", "user:ann", (), Instant(1))
    arrears.add(debt)
    arrears.add(evolve(debt, uid="other"))
    assert {uid, "other"} == {each.uid for each in arrears.debts()}
    arrears.remove(debt)
    arrears.remove(debt)
    assert ["other"] == [each.uid for each in arrears.debts()]


def test_a_hold_of_what_was_never_funded_is_owed_too() -> None:
    """Else its object would wait for the credit service, or its user's credits stay set aside."""
    stage = Stage()
    model = stage.job(stage.submitted())
    unknown = JobStatus().with_condition(FUNDED, ConditionStatus.UNKNOWN, Instant(0))
    job = stage.house.workloads.create(evolve(model, id="job-late", uid="uid-late", status=unknown))
    stage.faults.down |= {"credits"}
    with pytest.raises(Invalid, match="deleted before it was funded"):
        fund(stage.house, evolve(job, leaving=True))
    assert stage.house.workloads.get(job.id) is None
    stage.faults.down.clear()
    assert 1 == collect(stage.house).paid
    assert HoldState.CLOSED is stage.money.authorise(job.uid, user_account("ann"), Credits(1)).state


def test_owing_twice_is_owing_once() -> None:
    stage = Stage()
    job = leaving(stage)
    assert owe(stage.house, job) == owe(stage.house, job)
    assert 1 == len(owed(stage))
    assert all(isinstance(charge, Charge) for charge in owed(stage)[0].charges)
