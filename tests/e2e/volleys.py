"""Jobs that are sent while a gateway may die at any moment, and all that must be true of them afterwards.

A client that hears nothing asks again with the same key, as the SDK does; only its pauses are shorter here. The function of
each job writes a line when it starts: a job whose file has two lines for one attempt was run twice.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gridweave as gw
from attrs import define, field, frozen
from gridweave.calls import spawn
from gridweave.jobs import Job

from ports.units import Credits
from tests.e2e.closed_form import charged, cost
from tests.e2e.rig import ENDED, Rig, User, until

TRIES = 1200  # of one question, a tenth of a second apart, before a client gives up
SMALL_CHANGE = "0.0008"  # just the hold of an 8 GB job: spent within half a second
T = TypeVar("T")


def marks_and_works(file: str, seconds: float, fail: bool) -> str:
    import os
    import time

    with open(file, "a") as marks:
        marks.write(os.environ["GRIDWEAVE_RUN"] + "\n")
    time.sleep(seconds)
    if fail:
        raise ValueError(file)
    return file


marks_and_works.__module__ = "__main__"  # as if it stood in a script


@frozen
class Kind:
    """phase, reason: of its end. seconds: of its work. gb: that it books. credits: what its user has, None: the common one's."""

    phase: str
    reason: str
    seconds: float
    fail: bool = False
    gb: int = 1
    credits: str | None = None
    cancel_in: str = ""  # the phase to wait for; "any" is at once


KINDS = {
    "returns": Kind("Completed", "Returned", 1.2),
    "raises": Kind("Failed", "Raised", 0.0, fail=True),
    "cancelled": Kind("Cancelled", "Cancelled", 600.0, cancel_in="Running"),
    "withdrawn": Kind("Cancelled", "Cancelled", 600.0, cancel_in="any"),
    "exhausted": Kind("Failed", "BalanceExhausted", 600.0, gb=8, credits=SMALL_CHANGE),
    "refused": Kind("", "cannot-afford", 0.0, credits="0"),
}
ALL = tuple(KINDS)


def asked(question: Callable[[], T], given_up: threading.Event | None = None) -> T:
    """Its answer, from whichever gateway gives one."""
    said = ""
    for _ in range(TRIES):
        try:
            return question()
        except gw.Unavailable as error:
            said = str(error)
        if (given_up or threading.Event()).wait(0.1):
            break
    raise AssertionError(f"no answer: {said}")


@define
class Sent:
    """One job and its client. ids: of each answer to its submit."""

    user: User
    client: gw.Client
    key: str
    file: Path
    kind: Kind
    given_up: threading.Event
    ids: list[str] = field(factory=list)
    status: dict[str, Any] = field(factory=dict)
    refusals: list[str] = field(factory=list)
    failure: BaseException | None = None
    thread: threading.Thread | None = None

    def begin(self) -> None:
        self.thread = threading.Thread(target=self._run, name=self.key, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._live()
        except BaseException as error:
            self.failure = error

    def _live(self) -> None:
        job = self._submit()
        if job is not None:
            if self.kind.cancel_in:
                self._await(job, ENDED if self.kind.cancel_in == "any" else ENDED | {self.kind.cancel_in}, self.kind.cancel_in == "any")
                asked(job.cancel, self.given_up)
            self._await(job, ENDED)
            if self.status["phase"] == "Completed":
                assert str(self.file) == asked(lambda: job.result(timeout=0), self.given_up)
        self._submit()

    def _await(self, job: Job, phases: frozenset[str], at_once: bool = False) -> None:
        for _ in range(TRIES):
            self.status = asked(job.status, self.given_up)
            if at_once or self.status["phase"] in phases:
                return
            if self.given_up.wait(0.1):
                break
        raise AssertionError(f"it never came to {sorted(phases)}: {self.status}")

    def _submit(self) -> Job | None:
        function = gw.function(vram=f"{self.kind.gb}GB", owner="org")(marks_and_works)
        args = (str(self.file), self.kind.seconds, self.kind.fail)
        try:
            job = asked(lambda: spawn(self.client, function, args, {}, self.key), self.given_up)
        except gw.Refused as refused:
            self.refusals.append(refused.kind)
            return None
        self.ids.append(job.id)
        return job

    def check(self) -> None:
        """Accepted once, ended as it had to, run at most once per attempt, billed by the closed form."""
        if self.failure is not None:
            raise AssertionError(f"the client of {self.key}") from self.failure
        marks = Counter(self.file.read_text().split()) if self.file.exists() else Counter[str]()
        if not self.kind.phase:
            assert [self.kind.reason] * 2 == self.refusals
            assert not marks
            return
        assert [] == self.refusals
        assert 2 == len(self.ids)
        assert 1 == len(set(self.ids)), self.ids
        assert (self.kind.phase, self.kind.reason) == (self.status["phase"], self.status["reason"]), self.status
        assert not marks or 1 == max(marks.values()), marks
        assert marks or self.kind.cancel_in, f"{self.key} never ran"
        assert cost(self.status, self.kind.gb) == charged(self.status), self.status


@define
class Volleys:
    """All that was sent, most of it by one user. had: his credits at first."""

    rig: Rig
    folder: Path
    user: User = field(init=False)
    sent: list[Sent] = field(factory=list)
    given_up: threading.Event = field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.user = self.rig.user("walker")

    def fire(self, *kinds: str) -> None:
        """Send a job of each kind. No answer is waited for."""
        for name in kinds:
            kind = KINDS[name]
            user = self.user if kind.credits is None else self.rig.user(name, credits=kind.credits if kind.credits != "0" else None)
            key = f"{self.user.id}-{len(self.sent)}-{name}"
            client = gw.Client(self.rig.platform.url, user.key, retry_for=0)
            self.sent.append(Sent(user, client, key, self.folder / key, kind, self.given_up))
            self.sent[-1].begin()

    def join(self) -> None:
        """Wait until every job has ended and every client has been told so."""
        for each in self.sent:
            assert each.thread is not None
            each.thread.join(120)
            assert not each.thread.is_alive(), f"{each.key} has not ended: {each.status}"
            each.client.close()

    def give_up(self) -> None:
        """End the clients; what they have sent is of no interest any more."""
        self.given_up.set()
        for each in self.sent:
            if each.thread is not None:
                each.thread.join(60)
            each.client.close()

    def check(self) -> None:
        """Nothing is lost, leaked, run twice or charged twice, and the books prove themselves."""
        for each in self.sent:
            each.check()
        for user in {each.user.id: each.user for each in self.sent}.values():
            self._check_books(user, [each for each in self.sent if each.user.id == user.id])
        audited = self.rig.credits.verify()
        assert audited.sound, audited
        assert () == self.rig.credits.alarms()
        until(self.rig.idle, "every GPU free again, nothing quarantined")

    def _check_books(self, user: User, sent: list[Sent]) -> None:
        had = "1000" if sent[0].kind.credits is None else sent[0].kind.credits
        spent = sum(charged(each.status).micro for each in sent if each.status)
        account = asked(user.client.account)
        assert Credits.parse(had).micro - spent == Credits.parse(account["balance"]).micro
        assert "0.000000" == account["held"]
        assert {each.ids[0] for each in sent if each.ids} == {job["id"] for job in user.client.jobs(limit=1000)}
