"""The whole cluster in one thread: stores, services, machines, gateways, scheduler and biller, moved by actions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from attrs import evolve

from core.callers import Caller, Plan
from core.house import House, Terms
from core.inventory import Fleet, fold
from core.jobs import cancel
from core.names import job_id, upload_key
from core.nodes import NodeChange, declare
from core.schedule import Scheduler
from core.submit import Submission, submit
from core.tick import tick
from ports.credits import ISSUE, user_account
from ports.errors import Conflict, Refused, StaleEpoch, Unavailable
from ports.nodes import Gpu
from ports.tariffs import Splits, Tariff
from ports.units import Credits, Instant, Mib, Span
from ports.workloads import TERMINAL, Ask, BlobRef, ConditionStatus, Environment, Job
from tests.memory.blobs import MemoryBlobs
from tests.memory.credits import MemoryCredits
from tests.memory.epochs import MemoryEpochs
from tests.memory.metering import MemoryMetering
from tests.memory.nodes import MemoryNodes
from tests.memory.tariffs import MemoryTariffs
from tests.memory.workloads import MemoryWorkloads
from tests.simulation.actions import Action
from tests.simulation.faults import Crash, Faults, Paused
from tests.simulation.machines import Machine, Truth
from tests.simulation.processes import Process
from tests.simulation.services import (
    SimBlobs,
    SimClock,
    SimCredits,
    SimEpochs,
    SimMetering,
    SimNodes,
    SimRandomness,
    SimTariffs,
    SimWorkloads,
    digest,
)

GB = 1024
TERMS = Terms(credits_enabled=True, preflight=Span.of(minutes=1))
USERS = (
    (Caller("ann"), 4_000),
    (Caller("bob", plan=Plan.PAID), 4_000),
    (Caller("eve", plan=Plan.PAID), 9),  # runs dry
    (Caller("acme", plan=Plan.PAID), 500),  # has hardware of its own
)
Row = tuple[str, str, str, int, int]  # name, owner as its label says, model, MiB of a GPU, how many
FLEET: tuple[Row, ...] = (
    ("n0", "org", "A100", 40 * GB, 2),
    ("n1", "org", "L4", 24 * GB, 1),
    ("n2", "provider:acme", "A100", 40 * GB, 1),
    ("n3", "provider:zoe", "L4", 24 * GB, 2),
)
SIZES = (4, 8, 8, 10, 12, 20, 24, 40)
SERVICES = ("store", "credits", "blobs", "tariffs", "metering")
FUNCTION, ARGS, NEVER_UPLOADED = b"function", b"args", b"nothing"


class World:
    """make, machine: the classes to use, so that a test can break them on purpose. fleet, terms: drawn from the seed, if none are given."""

    def __init__(
        self,
        seed: str,
        make: type[Scheduler] = Scheduler,
        tell: Callable[[str], None] | None = None,
        machine: type[Machine] = Machine,
        fleet: Sequence[Row] = (),
        terms: Terms | None = None,
    ) -> None:
        self.source = random.Random(seed)
        terms = terms or evolve(TERMS, credits_enabled=random.Random(f"{seed}/terms").randrange(5) > 0)
        self.make, self._tell = make, tell
        self.clock, self.faults, self.truth = SimClock(), Faults(), Truth()
        self.jobs, self.records, self.epochs = MemoryWorkloads(), MemoryNodes(), MemoryEpochs()
        self.money, self.blobs, self.metering = MemoryCredits(self.clock), MemoryBlobs(self.clock), MemoryMetering()
        splits = Splits(rental_fee_ppm=100_000)
        tariffs = MemoryTariffs(Tariff(1, Instant(0), 1_000_000, 7_000_001, {}, {"acme": {"A100": 333_333_333}}, splits))
        self.house = House(
            SimWorkloads(self.jobs, self.faults),
            SimNodes(self.records, self.faults),
            SimCredits(self.money, self.faults),
            SimTariffs(tariffs, self.faults),
            SimBlobs(self.blobs, self.faults),
            self.clock,
            SimRandomness(self.source),
            terms,
            SimMetering(self.metering, self.faults),
        )
        self.machines: dict[str, Machine] = {}
        for name, owner, model, mib, count in fleet or FLEET[: self.source.randrange(1, len(FLEET)) + 1]:
            gpus = tuple(Gpu(index, model, "nvidia", Mib(mib)) for index in range(count))
            self.machines[name] = machine(name, owner, gpus, self.clock, self.blobs, self.truth)
            self.machines[name].blobs_down = lambda: "blobs" in self.faults.down
            self.machines[name].serves = self._serves
        for caller, credits in USERS:
            lines = {user_account(caller.user): Credits(credits * 1_000_000), ISSUE: Credits(-credits * 1_000_000)}
            self.money.post(f"grant-{caller.user}", "grant", lines)
            for data in (FUNCTION, ARGS):
                self.blobs.put(upload_key(caller.user, digest(data)), [data])
        self.process: Process | None = None
        self.old: list[Process] = []
        self.paused: list[tuple[Process | None, Paused]] = []
        self.asked: list[tuple[Caller, Submission]] = []
        self.keys = 0
        self.newest = 0
        self.steps = 0
        self.cancelled: set[str] = set()  # uids of jobs whose users were told that they will be cancelled
        self.sound: set[tuple[str, str]] = set()  # objects, by uid and version, that were looked at
        self.settled: set[tuple[str, str]] = set()  # ended jobs that were looked at
        self.written: dict[str, int] = {}  # by node: the newest term that has written its record

    # ------------------------------------------------------------ one step

    def step(self, action: Action) -> None:
        self.steps += 1
        said = getattr(self, f"_{action.kind}")(action) or ""
        self.watch_silence()
        self._say(f"{self.steps:>5}", f"{action}  {said}")

    def watch_silence(self) -> None:
        for machine in self.machines.values():
            machine.watch_silence()

    def _say(self, what: str, said: str) -> None:
        """A line of the trace, and under it what was written and what was broken."""
        log, self.faults.log = self.faults.log, []
        if self._tell is not None:
            for line in (f"{what} {self.clock.ms / 1000:>8.1f}s {said}", *(f"{'':>16}{each}" for each in log)):
                self._tell(line)

    def _as(self, process: Process | None, act: Callable[[], object]) -> str:
        """One operation of a process (None: of a gateway or biller), with what is armed."""
        try:
            if not self.faults.may_pause:
                return str(act() or "")
            said: list[object] = []
            paused = self.faults.start(lambda: said.append(act()))
            if paused is not None:
                self.paused.append((process, paused))
                return f"paused before {paused.what}"
            return str(said[0] or "")
        except Crash as crash:
            self._dies(process)
            return f"died at {crash}"

    def _dies(self, process: Process | None) -> None:
        """A process is dead: what it held in memory, and what it had paused in the middle, is no more."""
        if process is None:
            return
        for owner, paused in [each for each in self.paused if each[0] is process]:
            self.paused.remove((owner, paused))
            paused.end()
        if process is self.process:
            self.process = None
        elif process in self.old:
            self.old.remove(process)

    def _serves(self, epoch: int) -> bool:
        """Whether the process of that term lives: the inputs that it granted are fetched from it."""
        return any(each is not None and each.epoch == epoch for each in (self.process, *self.old))

    def busy(self, process: Process | None) -> bool:
        """Whether its deciding thread stands still in the middle of something."""
        return process is not None and any(owner is process for owner, _ in self.paused)

    # ------------------------------------------------------------ gateways

    def fleet(self) -> Fleet:
        return fold(self.records.list(), self.live_jobs())

    def live_jobs(self) -> list[Job]:
        return [job for job in self.stored() if job.status.phase not in TERMINAL]

    def stored(self) -> list[Job]:
        return list(self.jobs._jobs.values())

    def _submit(self, action: Action) -> str:
        caller = USERS[action.a % len(USERS)][0]
        many = action.b // 256 % 16
        ask = Ask(
            Mib(SIZES[action.b % len(SIZES)] * GB),
            gpus=2 if many == 0 else 1,
            workers=2 if many == 1 else 1,
            owner=(None, None, None, "org", "self_host" if caller.user == "acme" else None)[action.b // 8 % 5],
            exclusive=many == 2,
            model="L4" if many == 3 else None,
        )
        args = NEVER_UPLOADED if many == 4 else ARGS
        limit = Span.of(seconds=30) if many == 5 else None
        submission = Submission(
            "work",
            ask,
            BlobRef(digest(FUNCTION), len(FUNCTION)),
            BlobRef(digest(args), len(args)),
            None,
            Environment(),
            limit,
            {},
            "3.11.2",
            "3.1.0",
            f"key-{self.keys}",
            f"body-{self.keys}",
        )
        self.keys += 1
        self.asked.append((caller, submission))
        return self._hand_in(caller, submission)

    def _again(self, action: Action) -> str:
        if not self.asked:
            return ""
        caller, submission = self.asked[action.a % len(self.asked)]
        if action.b % 8 == 0:
            submission = evolve(submission, body_sha256="other")
        return self._hand_in(caller, submission)

    def _hand_in(self, caller: Caller, submission: Submission) -> str:
        def act() -> str:
            name = job_id(caller.user, submission.key)
            try:
                done = submit(self.house, caller, submission, self.fleet())
            except (Refused, Unavailable) as error:
                return f"{name} {type(error).__name__}: {error}"
            return f"{done.job.id} {'made' if done.created else 'is there'}, {done.job.status.phase}"

        return self._as(None, act)

    def _cancel(self, action: Action) -> str:
        if not self.asked:
            return ""
        caller, submission = self.asked[action.a % len(self.asked)]
        name = job_id(caller.user, submission.key)

        def act() -> str:
            try:
                flagged = cancel(self.house, caller, name)
                if flagged.status.cancel is not None:
                    self.cancelled.add(flagged.uid)
                return f"{name} {flagged.status.phase}"
            except (Refused, Unavailable) as error:
                return str(error)

        return self._as(None, act)

    def _touch(self, action: Action) -> str:
        """Another writer changes an object: whoever has read it before gets a conflict."""
        jobs = self.live_jobs()
        if not jobs:
            return ""
        job = jobs[action.a % len(jobs)]
        status = job.status.with_condition("Touched", ConditionStatus.TRUE, self.clock.now(), str(action.b))
        self.jobs.replace(evolve(job, status=status))
        return job.id

    def _tick(self, action: Action) -> str:
        def act() -> str:
            try:
                done = tick(self.house)
            except Unavailable as error:
                return str(error)
            assert not done.refused, done.refused
            return f"{done.runs} runs, {done.posted} posted, {done.flagged} flagged"

        return self._as(None, act)

    # ------------------------------------------------------------ the scheduler

    def _start(self, _: Action) -> str:
        return "" if self.process is not None else self._begin()

    def _begin(self) -> str:
        try:
            self.process = Process(self.house, SimEpochs(self.epochs, self.faults), self.machines, self.faults, self.newest, self.make)
        except StaleEpoch as error:
            self.newest = max(self.newest, error.newest)
            return f"could not begin: {error}"
        except (Unavailable, Crash) as error:
            return f"could not begin: {error}"
        return f"term {self.process.epoch}"

    def _crash(self, _: Action) -> str:
        self._dies(self.process)
        return "the scheduler is dead"

    def _takeover(self, _: Action) -> str:
        """The scheduler is paused, loses the lock, and another one begins."""
        if self.process is not None:
            self.old = [*self.old[-1:], self.process]
            self.process = None
        return self._begin()

    def _of(self, process: Process | None, act: Callable[[Process], object]) -> str:
        if process is None:
            return ""
        if self.busy(process):
            return "is paused"
        said = self._as(process, lambda: act(process))
        if process.deposed:
            self.newest = max(self.newest, process.deposed)
            self._dies(process)
        return said

    def _watch(self, action: Action) -> str:
        return self._of(self.process, lambda each: each.watch())

    def _events(self, action: Action) -> str:
        return self._of(self.process, lambda each: each.events(action.a % 4 + 1))

    def _round(self, action: Action) -> str:
        return self._of(self.process, lambda each: each.round())

    def _name(self, action: Action) -> str:
        return list(self.machines)[action.a % len(self.machines)]

    def _poll(self, action: Action) -> str:
        if action.b % 16 == 0 and self.process is not None:
            self.process.again(action.b // 16)
        return self._of(self.process, lambda each: each.poll(self._name(action)))

    def _deliver(self, action: Action) -> str:
        return self._of(self.process, lambda each: each.deliver(self._name(action)))

    def _settle(self, _: Action) -> str:
        """In a thread of its own: whether the deciding one is paused is nothing to it."""
        if self.process is None:
            return ""
        process = self.process
        return self._as(process, process.settle_one)

    def _wake(self, action: Action) -> str:
        """A predecessor that was paused goes on for a moment, with its old epoch and what it remembers."""
        if not self.old:
            return ""
        process = self.old[action.a % len(self.old)]
        act = (
            lambda each: each.round(),
            lambda each: each.events(3),
            lambda each: each.deliver(self._name(action)),
            lambda each: each.settle_one(),
            lambda each: each.round(),
            lambda each: each.poll(self._name(action)),
        )[action.b % 6]
        return self._of(process, act)

    def _resume(self, action: Action) -> str:
        """An operation that stands still goes on."""
        if not self.paused:
            return ""
        owner, paused = self.paused.pop(action.a % len(self.paused))
        try:
            paused.resume()
        except Crash:
            self._dies(owner)
        return f"went on from {paused.what}"

    def _beat(self, action: Action) -> str:
        """Everything does its daily work once."""
        self._watch(action)
        for name in self.machines:
            self._of(self.process, lambda each, name=name: each.poll(name))  # type: ignore[misc]
        self._of(self.process, lambda each: each.events(1000))
        said = self._round(action)
        for name in self.machines:
            self._of(self.process, lambda each, name=name: each.deliver(name))  # type: ignore[misc]
        self._settle(Action("settle"))
        return said

    # ------------------------------------------------------------ the world outside

    def _work(self, action: Action) -> str:
        return self.machines[self._name(action)].work(action.a // 16, action.b)

    def _time(self, action: Action) -> None:
        self.clock.ms += (1, 50, 700, 2_000, 5_001, 12_345)[action.a % 6]

    def _wait(self, action: Action) -> None:
        """Some time of nothing but asking."""
        for _ in range(8 + action.a % 24):
            self.clock.ms += 4_700
            for name in self.machines:
                self._of(self.process, lambda each, name=name: each.poll(name))  # type: ignore[misc]
            self._of(self.process, lambda each: each.events(1000))
            self._of(self.process, lambda each: each.round())

    def _long(self, action: Action) -> None:
        self.clock.ms += (30_000, 61_000, 95_000, 3_700_000)[action.a % 4]

    def _jump(self, action: Action) -> None:
        self.clock.jumped += (3_600_000, -3_600_000)[action.a % 2]

    def _kill_agent(self, action: Action) -> str:
        self.machines[self._name(action)].stop_agent()
        return self._name(action)

    def _start_agent(self, action: Action) -> str:
        self.machines[self._name(action)].start_agent()
        return self._name(action)

    def _kill_process(self, action: Action) -> str:
        return self.machines[self._name(action)].kill_process(action.b)

    def _power_off(self, action: Action) -> str:
        self.machines[self._name(action)].power_off()
        return self._name(action)

    def _power_on(self, action: Action) -> str:
        self.machines[self._name(action)].power_on(wiped=action.b % 4 == 0)
        return self._name(action)

    def _cut(self, action: Action) -> str:
        self.machines[self._name(action)].connected = False
        return self._name(action)

    def _mend(self, action: Action) -> str:
        self.machines[self._name(action)].connected = True
        return self._name(action)

    def _arm(self, action: Action) -> None:
        if action.fault is not None:
            self.faults.armed[action.fault.what] = action.fault.mode

    def _down(self, action: Action) -> str:
        service = SERVICES[action.a % len(SERVICES)]
        self.faults.down.add(service)
        return service

    def _up(self, action: Action) -> str:
        service = SERVICES[action.a % len(SERVICES)]
        self.faults.down.discard(service)
        return service

    def _late(self, action: Action) -> str:
        """A request that was given up lands after all."""
        if not self.faults.late:
            return ""
        what, effect = self.faults.late.pop(action.a % len(self.faults.late))
        try:
            effect()
        except (Conflict, Refused, Unavailable) as error:
            return f"{what}: {error}"
        return what

    def _declare(self, change: NodeChange) -> str:
        declare(evolve(self.house, nodes=self.records), change)
        return str(change)

    def _drain(self, action: Action) -> str:
        return self._declare(NodeChange(self._name(action), drain=action.b % 2 == 0))

    def _gone(self, action: Action) -> str:
        """An admin declares a machine gone: he has seen to it that it is off."""
        machine = self.machines[self._name(action)]
        if machine.powered:
            return ""
        self.truth.declared.add(machine.name)
        return self._declare(NodeChange(machine.name, gone=True))

    def _owner(self, action: Action) -> str:
        """An operator says whose a machine is; with a label that says the same it changes nothing."""
        machine = self.machines[self._name(action)]
        return self._declare(NodeChange(machine.name, owner=machine.label_owner if action.b % 4 else ""))

    def _archive(self, action: Action) -> str:
        """Retention: the object of an ended job goes, and its key with it; long after, so that no request of its days is under way."""
        if any(owner is None for owner, _ in self.paused) or any(what == "store.create" for what, _ in self.faults.late):
            return "a request is under way"
        ended = [job for job in self.stored() if job.status.phase in TERMINAL]
        if not ended:
            return ""
        job = ended[action.a % len(ended)]
        self.asked = [(caller, request) for caller, request in self.asked if job_id(caller.user, request.key) != job.id]
        self.jobs.delete(job)
        return job.id

    def _amend(self, action: Action) -> str:
        """What was refused before need not be now, and the other way round: credits are bought, uploads made and swept."""
        user = USERS[action.a % len(USERS)][0].user
        upload = upload_key(user, digest(NEVER_UPLOADED))
        if action.b % 3 == 0:
            self.keys += 1
            lines = {user_account(user): Credits(2_000_000), ISSUE: Credits(-2_000_000)}
            self.money.post(f"top-up-{self.keys}", "grant", lines)
            return f"{user} buys credits"
        if action.b % 3 == 1:
            self.blobs.put(upload, [NEVER_UPLOADED])
            return f"{user} uploads what was missing"
        self.blobs.delete(upload)
        return f"an upload of {user} is swept"

    # ------------------------------------------------------------ afterwards

    def calm(self) -> None:
        """Faults stop: services answer, machines are back, whoever was paused goes on and learns that it is late."""
        self.faults.down.clear()
        self.faults.armed.clear()
        while self.faults.late:
            self._late(Action("late"))
        while self.paused:
            self._resume(Action("resume"))
        for process in list(self.old):
            self._dies(process)
        for machine in self.machines.values():
            machine.connected = True
            machine.power_on()
            machine.start_agent()
            self._declare(NodeChange(machine.name, "", False, False))
        if self.process is None:
            self._begin()

    def cancel_hopeless(self) -> None:
        """Users give up what was submitted before the fleet was known, and which no machine can hold."""
        for job in self.live_jobs():
            if "No node that is here" in job.status.waiting:
                cancel(self.house, Caller(job.spec.user), job.id)

    def bury(self) -> None:
        """Leave no thread behind."""
        while self.paused:
            self.paused.pop()[1].end()

    def beat(self) -> None:
        """One round of daily work without a fault, for everybody."""
        if self.process is None:
            self._begin()
        said = self._beat(Action("beat"))
        for name, machine in self.machines.items():
            for run in range(len(machine.runs)):
                said += f" {name}: {machine.work(run, 0)}"
        while self.process is not None and self.process.settling:
            self._settle(Action("settle"))
        self._tick(Action("tick"))
        self.clock.ms += 1_000
        self._say(" rest", said)
