"""One random history of money: submits, placements, price changes, ticks of two billers, ends, closes, clock jumps, crashes.

Submit, funding, pricing, ticks and closing are the real ones, the books are a SQLite file; between them is a wire that
loses, delays, doubles and reorders. `python -m tests.money.history --seed 7 --steps 1000000` plays one, and says what is wrong.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import evolve

from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.database import Database
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import CREDITS
from core import lifecycle
from core.callers import Caller, Plan
from core.close import close
from core.funding import fund
from core.house import House, Terms
from core.inventory import Fleet, fold
from core.ledger import NoRoom
from core.names import job_id, upload_key
from core.owners import pools
from core.pricing import price, rate
from core.submit import Submission, submit
from core.tick import tick
from ports import wire
from ports.credits import ISSUE, PLATFORM, CreditService, HoldState, user_account
from ports.errors import Conflict, Refused, Unavailable
from ports.metering import Metering, Usage
from ports.nodes import Gpu, NodeRecord, NodeSpec, NodeState, NodeStatus
from ports.tariffs import PPM, Splits, Tariff
from ports.units import Credits, Instant, Mib, Span
from ports.workloads import FUNDED, TERMINAL, Ask, BlobRef, Environment, Exit, ExitKind, Job, JobFilter, Phase, RunId
from tests.memory.blobs import MemoryBlobs
from tests.memory.nodes import MemoryNodes
from tests.memory.tariffs import MemoryTariffs
from tests.memory.workloads import MemoryWorkloads
from tests.money.recomputed import PriceList, Slot, postings
from tests.money.wire import Crash, Wire, WiredCredits, WiredMetering
from tests.simulation.services import SimClock, SimRandomness, digest

GB = 1024
USERS = (Caller("ann", plan=Plan.PAID), Caller("bob", plan=Plan.PAID), Caller("acme", plan=Plan.PAID), Caller("fred", plan=Plan.FREE))
MACHINES = (("n1", "org", "L4", 24), ("n2", "provider:acme", "A100", 40), ("n3", "provider:zoe", "L4", 24))
GPUS = 4  # of each machine
DATA = b"anything"
LIVE = frozenset({Phase.ALLOCATED, Phase.RUNNING})
OPEN = frozenset(Phase) - TERMINAL
PROVED_EVERY = 50_000  # steps: a proof reads the whole journal
MOST = 12  # jobs at once
PREFLIGHT = Span.of(minutes=1)
Services = tuple[CreditService, Metering]


class History:
    """folder: of the books. share: of calls to the services that go wrong. services: makes them; they keep their books there."""

    def __init__(self, seed: str, folder: Path, share: float = 0.25, services: Services | None = None) -> None:
        self.source = random.Random(seed)
        self.clock = SimClock()
        self.database = Database(folder / "credits.db", CREDITS, synchronous="NORMAL")
        self.books = SqliteCredits(self.database, self.clock)
        self.wire = Wire(self.source, share)
        credits, metering = (self.books, SqliteMetering(self.database)) if services is None else services
        self.blobs, self.ticks = MemoryBlobs(self.clock), 0
        self.jobs, self.records, self.tariffs = MemoryWorkloads(), MemoryNodes(), MemoryTariffs()
        self.tariffs.publish(Tariff(1, Instant(0), 0, 1_000_000))
        self.house = House(
            self.jobs,
            self.records,
            WiredCredits(credits, self.wire),
            self.tariffs,
            self.blobs,
            self.clock,
            SimRandomness(self.source),
            Terms(credits_enabled=True, preflight=PREFLIGHT),
            WiredMetering(metering, self.wire),
        )
        for name, owner, model, gb in MACHINES:
            gpus = tuple(Gpu(index, model, "nvidia", Mib(gb * GB)) for index in range(GPUS))
            self.records.put_spec(NodeRecord(name, NodeSpec(owner)))
            self._status(name, NodeStatus(NodeState.READY, "", owner, gpus=gpus))
        for caller in USERS:
            self.blobs.put(upload_key(caller.user, digest(DATA)), [DATA])
        self.old = self.records.list()  # what a slow biller has read
        self.granted = dict.fromkeys((user_account(caller.user) for caller in USERS), 0)
        self.due: dict[str, int] = {}  # per account, what all settled runs come to
        self.errands: list[Callable[[], None]] = []
        self.quoted: dict[str, int] = {}  # by job, the version of the price list when it was submitted
        self.settled = self.keys = self.steps = self.covered = 0

    # ------------------------------------------------------------ steps

    def step(self) -> None:
        self.steps += 1
        self.clock.ms += self.source.choice((1, 7, 250, 1_000, 60_001))
        act = self.source.choices(ACTS, WEIGHTS)[0]
        with suppress(Unavailable, Refused, Conflict, Crash):
            act(self)
        if self.steps % PROVED_EVERY == 0:
            self.prove()

    def submit(self) -> None:
        if len(self.of(OPEN)) >= MOST:
            return
        caller = self.source.choice(USERS)
        ask = Ask(
            Mib(self.source.choice((1, 1_000, 4 * GB, 8 * GB + 1, 24 * GB))),
            self.source.choice((1, 1, 2)),
            exclusive=self.source.random() < 0.2,
            owner=self.source.choice((None, None, "org", "provider", "provider:zoe", "self_host")),
        )
        self.keys += 1
        blob = BlobRef(digest(DATA), len(DATA))
        wanted = Submission("work", ask, blob, blob, None, Environment(), None, {}, "", "", f"key-{self.keys}", "body")
        self.quoted[job_id(caller.user, wanted.key)] = self.tariffs.in_force(self.clock.now()).version
        submit(self.house, caller, wanted, self.fleet())

    def take_up(self) -> None:
        """A submit that died half-way is finished, or comes again."""
        for job in self.of({Phase.PENDING}):
            condition = job.status.condition(FUNDED)
            if condition is not None and not job.status.holds(FUNDED):
                fund(self.house, job)
                return

    def place(self) -> None:
        """The first that is funded, at the price in force now; the hold was made at the price in force then."""
        job = next((each for each in self.of({Phase.PENDING}) if each.status.holds(FUNDED)), None)
        if job is None:
            return
        fleet = self.fleet()
        run = RunId(job.id, job.status.attempt + 1)
        found = fleet.ledger().reserve(run, job.spec.ask, pools(job.spec.user, job.spec.plan, job.spec.ask.owner))
        if isinstance(found, NoRoom):
            return
        now = self.clock.now()
        given = price(found, fleet, self.tariffs.in_force(now), job.spec.user) if job.spec.billed else lifecycle.FREE
        if given.tariff == self.quoted[job.id]:  # else another price was announced in between, and the hold is of the former
            assert job.spec.hold >= rate(given).prorate_ceil(PREFLIGHT), f"the hold of {job.id} does not cover where it landed"
            self.covered += 1
        job = self.jobs.replace(evolve(job, status=lifecycle.allocated(job, found, 1, given, now)))
        self.jobs.replace(evolve(job, status=lifecycle.running(job.status, now)))

    def run(self) -> None:
        """Time passes for what runs; its nodes tell."""
        for job in self.of(LIVE):
            run = job.status.run
            assert run is not None
            if self.source.random() < 0.5:
                self._tell(run.placement[0].node, str(run.id), self.source.choice((1, 999, 60_000, 3_599_999)))

    def tick(self) -> None:
        self.ticks += 1
        tick(self.house)

    def slow_tick(self) -> None:
        """The other biller, which has read the records a while ago."""
        found = self.old
        if self.source.random() < 0.5:
            self.old = self.records.list()

        class Old(MemoryNodes):
            def list(self) -> tuple[NodeRecord, ...]:
                return found

        self.ticks += 1
        tick(evolve(self.house, nodes=Old()))

    def end(self) -> None:
        live = self.of(LIVE)
        if not live:
            return
        job = self.source.choice(live)
        run = job.status.run
        assert run is not None
        record = self.records.get(run.placement[0].node)
        assert record is not None
        told = record.status.ran.get(str(run.id), Span(0))
        ran = told + Span(self.source.choice((0, 1, 12_345)))
        self._forget(run.placement[0].node, str(run.id))
        status = lifecycle.ended(job, Exit(ExitKind.RAISED), ran, self.clock.now())
        status = lifecycle.nothing_to_store(status, "Stored", self.clock.now())
        self.jobs.replace(evolve(job, status=status))

    def close(self) -> None:
        closing = self.of({Phase.CLOSING})
        if closing:
            self._settled(close(self.house, self.source.choice(closing)))

    def publish(self) -> None:
        draw = self.source
        newest = self.tariffs.history()[-1]
        effective = self.clock.now() + Span(draw.choice((0, 0, 60_000, 3_600_000)))
        models = {model: draw.choice((0, 1, 333_333, 7_000_001)) for model in ("L4", "A100") if draw.random() < 0.3}
        providers = {owner: dict(models) for owner in ("provider:acme", "provider:zoe") if draw.random() < 0.4}
        splits = Splits(draw.choice((0, 1, 100_000, 333_333, PPM)))
        self.tariffs.publish(
            Tariff(newest.version + 1, effective, draw.choice((0, 0, 1_000_003)), draw.choice((0, 1, 1_000_000)), models, providers, splits)
        )

    def jump(self) -> None:
        self.clock.jumped += self.source.choice((-86_400_000, -1_000, 1_000, 3_600_000))

    def top_up(self) -> None:
        """An admin repeats it until he knows."""
        account = user_account(self.source.choice(USERS).user)
        self.keys += 1
        key, amount = f"grant-{self.keys}", self.source.choice((1, 1_000_000, 50_000_000))
        lines = {account: Credits(amount), ISSUE: Credits(-amount)}
        self.errands.append(lambda: self._granted(self.house.credits.post(key, "grant", lines), account, amount))

    def call(self) -> None:
        """A paid call: held, and captured or given up."""
        account = user_account(self.source.choice(USERS).user)
        self.keys += 1
        key, held = f"call-{self.keys}", self.source.choice((1, 1_000, 2_000_000))
        paid, fee = held - self.source.randrange(held), self.source.choice((0, 0, 1))
        lines = {account: Credits(-paid), "provider:zoe": Credits(paid - fee), PLATFORM: Credits(fee)}
        given_up = self.source.random() < 0.3

        def authorise() -> None:
            if self.house.credits.authorise(key, account, Credits(held)).state is HoldState.OPEN:
                self.errands.append(void if given_up else capture)

        def void() -> None:
            self.house.credits.void(key)

        def capture() -> None:
            self.house.credits.capture(key, "call", lines)
            for name, amount in lines.items():
                self.due[name] = self.due.get(name, 0) + amount.micro

        self.errands.append(authorise)

    def errand(self) -> None:
        """One of those that are not known to be done."""
        if self.errands:
            at = self.source.randrange(len(self.errands))
            self.errands[at]()
            del self.errands[at]

    def deliver(self) -> None:
        self.wire.deliver()

    # ------------------------------------------------------------ what must be true

    def _settled(self, job: Job) -> None:
        """charged = closed form, by whoever recomputes it; the hold is given back; usage was told."""
        assert job.status.phase in TERMINAL
        user, run = job.spec.user, job.status.run
        wanted: dict[str, int] = {}
        if run is not None and job.spec.billed:
            tariff = self.tariffs.history()[run.price.tariff - 1]
            wanted = postings(self.slots(job), listed(tariff), user, run.ran.ms)
        with self.database.read() as db:
            totals = dict(db.execute("SELECT account, total FROM totals WHERE uid = ?", (job.uid,)).fetchall())
            state = db.execute("SELECT state FROM holds WHERE key = ?", (job.uid,)).fetchone()
            final = [wire.load(body, Usage) for (body,) in db.execute("SELECT body FROM usage WHERE id = ?", (self._final(job),))]
        mine = -wanted.pop(user_account(user), 0)
        assert {name: total for name, total in totals.items() if total} == wanted, (job.id, totals, wanted)
        assert mine == job.status.charged.micro == sum(wanted.values())
        assert state == (("closed",) if job.spec.billed else None), f"the hold of {job.id} is {state}"
        for account, amount in (*wanted.items(), (user_account(user), -mine)):
            self.due[account] = self.due.get(account, 0) + amount
        if run is not None and job.spec.billed and run.ran.ms:
            assert [mine] == [usage.total.micro for usage in final], f"the final charge of {run.id} was told as {final}"
        self.jobs.delete(job)
        self.settled += 1

    def _final(self, job: Job) -> str:
        run = job.status.run
        return f"{job.uid}/{run.id}/final/{run.ran.ms}" if run is not None else ""

    def prove(self) -> None:
        audit = self.books.verify()
        assert audit.sound, audit
        assert () == self.books.alarms()

    def rest(self) -> None:
        """Whatever is left comes to its end; then everything adds up."""
        self.wire.share = 0
        while self.wire.late:
            self.wire.deliver()
        while left := self.of(OPEN):
            for job in left:
                with suppress(Refused):
                    self._finish(job)
        while self.errands:
            self.errand()
        self.prove()
        for account in {*self.due, *self.granted}:
            found = self.books.account(account)
            wanted = self.due.get(account, 0) + self.granted.get(account, 0)
            assert (wanted, 0) == (found.balance.micro, found.held.micro), account
        assert sum(self.books.account(name).balance.micro for name in {*self.due, *self.granted, ISSUE}) == 0
        with self.database.read() as db:
            assert db.execute("SELECT count(*) FROM holds WHERE state = 'open'").fetchone() == (0,)

    def _finish(self, job: Job) -> None:
        match job.status.phase:
            case Phase.PENDING if job.status.holds(FUNDED):
                self.jobs.replace(evolve(job, status=lifecycle.closing(job.status, Phase.CANCELLED, "Cancelled")))
            case Phase.PENDING:
                fund(self.house, job)
            case Phase.CLOSING:
                self._settled(close(self.house, job))
            case _:
                self.end()

    # ------------------------------------------------------------ small things

    def _granted(self, _: bool, account: str, amount: int) -> None:
        self.granted[account] += amount

    def of(self, phases: Any) -> list[Job]:
        return list(self.jobs.list(JobFilter(phases=frozenset(phases))).jobs)

    def fleet(self) -> Fleet:
        return fold(self.records.list(), self.of(LIVE))

    def slots(self, job: Job) -> list[Slot]:
        run = job.status.run
        assert run is not None
        by_name = {name: (owner, model, gb * GB) for name, owner, model, gb in MACHINES}
        return [Slot(by_name[each.node][0], by_name[each.node][1], each.mib.n, by_name[each.node][2]) for each in run.placement]

    def _tell(self, node: str, run: str, more: int) -> None:
        record = self.records.get(node)
        assert record is not None
        ran = record.status.ran | {run: record.status.ran.get(run, Span(0)) + Span(more)}
        self._status(node, evolve(record.status, ran=ran))

    def _forget(self, node: str, run: str) -> None:
        record = self.records.get(node)
        assert record is not None
        self._status(node, evolve(record.status, ran={each: span for each, span in record.status.ran.items() if each != run}))

    def _status(self, node: str, status: NodeStatus) -> None:
        record = self.records.get(node)
        assert record is not None
        self.records.put_status(evolve(record, status=status))

    def shut(self) -> None:
        self.database.close()


_TABLE = {
    History.submit: 8, History.take_up: 6, History.place: 8, History.run: 14, History.tick: 14, History.slow_tick: 8, History.end: 7,
    History.close: 10, History.publish: 1, History.jump: 1, History.top_up: 2, History.deliver: 6, History.call: 3, History.errand: 8,
}  # fmt: skip
ACTS, WEIGHTS = tuple(_TABLE), tuple(_TABLE.values())


def listed(tariff: Tariff) -> PriceList:
    return PriceList(tariff.base_rate, tariff.vram_rate, {"org": tariff.org_models, **tariff.providers}, tariff.splits.rental_fee_ppm)


def play(seed: str, steps: int, share: float = 0.25) -> History:
    """Raises AssertionError at whatever is wrong. What is given is at rest, and shut."""
    with tempfile.TemporaryDirectory() as folder:
        history = History(seed, Path(folder), share)
        try:
            for _ in range(steps):
                history.step()
            history.rest()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {history.steps}: {error}") from error
        finally:
            history.shut()
        return history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.seeds):
        done = play(str(seed), options.steps)
        print(f"seed {seed}: {done.steps} steps, {done.settled} jobs settled, mishaps {done.wire.mishaps}", flush=True)


if __name__ == "__main__":
    main()
