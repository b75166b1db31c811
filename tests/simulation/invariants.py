"""What must be true after each step, whatever has died.

Each check reads what is stored and what is true on the machines; none trusts what a process of ours remembers, save
where the question is what it remembers.
"""

from __future__ import annotations

from collections import Counter

from core.charges import cost, totals
from ports.blobs import input_key
from ports.credits import user_account
from ports.lifecycle import GIVEN_UP
from ports.units import Credits, Span
from ports.workloads import FUNDED, RESULT_STORED, TERMINAL, ExitKind, Job, Phase, Run, RunState
from tests.simulation.processes import Process
from tests.simulation.world import TERMS, World


class BrokenError(AssertionError):
    """An invariant does not hold."""


def check(world: World) -> None:
    """After each step."""
    machines_hold_what_they_can(world)
    code_starts_once(world)
    money_adds_up(world)
    for job in world.stored():
        the_object_is_sound(world, job)
        if job.status.phase in TERMINAL:
            what_has_ended_is_settled(world, job)
        elif job.status.holds(FUNDED):
            its_inputs_are_there(world, job)
    holds_belong_to_what_lives(world)
    the_ledger_adds_up(world)
    what_is_booked_lives(world)
    records_are_of_the_newest_term(world)


def demand(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenError(what)


def records_are_of_the_newest_term(world: World) -> None:
    """Once a term has written a node's record, no earlier one writes it."""
    for record in world.records.list():
        written = world.written.get(record.name, 0)
        demand(record.status.epoch >= written, f"the record of {record.name} was of term {written}, and is of {record.status.epoch} again")
        world.written[record.name] = record.status.epoch


def machines_hold_what_they_can(world: World) -> None:
    """An agent has the last word, and never has to say it: it refuses nothing for want of room."""
    demand(not world.truth.refused, f"an agent had to refuse: {world.truth.refused}")
    for machine in world.machines.values():
        for gpu in machine.gpus:
            used = machine.used(gpu.index)
            demand(used <= gpu.total.n, f"{machine.name}: {used} MiB are in use of GPU {gpu.index}, which has {gpu.total}")


def code_starts_once(world: World) -> None:
    """At most once per attempt; and since a job has no restarts, at most once per job."""
    attempts: dict[str, set[int]] = {}
    for (run, machine), count in world.truth.starts.items():
        demand(count <= 1, f"user code of {run} was started {count} times on {machine}")
        attempts.setdefault(run.workload, set()).add(run.attempt)
    for name, tried in attempts.items():
        demand(len(tried) == 1, f"user code of {name} was started in attempts {sorted(tried)}")


def money_adds_up(world: World) -> None:
    total = sum(amount.micro for amount in world.money._balances.values())
    demand(total == 0, f"the postings sum to {total} micro-credits, not to zero")


def holds_belong_to_what_lives(world: World) -> None:
    open_holds = {key for key, hold in world.money._holds.items() if hold.open}
    if open_holds:
        live = {job.uid for job in world.stored() if job.status.phase not in TERMINAL}
        demand(open_holds <= live, f"holds are open for nothing that lives: {open_holds - live}")


def the_object_is_sound(world: World, job: Job) -> None:
    status = job.status
    if status.phase is Phase.ALLOCATED:
        for run in status.runs:
            started = run.state is RunState.BOOKED and any((run.id, slot.node) in world.truth.starts for slot in run.placement)
            demand(not started, f"{run.id} was started and is stored as {run.state}")
    if job.uid in world.cancelled:
        demand(status.cancel is not None, f"{job.id} was cancelled, and its flag is gone")
    key = (job.uid, job.version)
    if key in world.sound:  # what follows is of the object alone
        return
    world.sound.add(key)
    live = [run for run in status.runs if run.state is not RunState.ENDED]
    demand(len(live) <= 1 and all(run.id == status.runs[-1].id for run in live), f"{job.id} has several live runs")
    held = [run.id.attempt for run in live]
    demand(bool(live) == (status.phase in (Phase.ALLOCATED, Phase.RUNNING)), f"{job.id} is {status.phase} with live attempts {held}")
    if status.runs:
        demand(status.holds(FUNDED), f"{job.id} was placed and is not funded")


def its_inputs_are_there(world: World, job: Job) -> None:
    """From its funding to its end: its nodes fetch them, once for each attempt."""
    for name in ("function", "args"):
        demand(input_key(job.id, job.uid, name) in world.blobs._blobs, f"{job.id} is funded, and its {name} is gone")


def what_has_ended_is_settled(world: World, job: Job) -> None:
    status = job.status
    key = (job.uid, job.version)
    if key in world.settled:
        return
    world.settled.add(key)
    demand(status.phase is status.outcome, f"{job.id} is {status.phase}, and its outcome was {status.outcome}")
    for run in status.runs:
        time_is_true(world, run)
        processes_are_gone(world, job, run)
        nothing_healthy_is_given_up(world, run)
    the_bill_is_exact(world, job)
    the_result_is_kept(world, job)


def time_is_true(world: World, run: Run) -> None:
    """What ends as it should is known to the millisecond; what is lost is billed for no more than it ran."""
    true = world.truth.ran.get(run.id)
    if true is None or run.exit is None:
        return
    still = any(run.id in machine.runs and machine.runs[run.id].alive for machine in world.machines.values())
    nodes = {slot.node for slot in run.placement}
    rank_lost = len(nodes) > 1 and any(was_hurt(world, node) for node in nodes)  # the others say how it ended, not for how long it ran
    if run.exit.kind is not ExitKind.RUNNER_LOST and run.id not in world.truth.vague and not rank_lost:
        demand(run.ran == Span(true), f"{run.id} ran {true} ms, and is stored with {run.ran}")
    elif not still:
        demand(run.ran <= Span(true), f"{run.id} ran {true} ms, and is billed for {run.ran}")


def was_hurt(world: World, machine: str) -> bool:
    """Whether it was silent for so long, at some time, that its runs may be given up; or lost what it knew."""
    truth = world.truth
    return truth.hurt.get(machine, 0) > TERMS.lost_after.ms or machine in truth.wiped or machine in truth.declared


def nothing_healthy_is_given_up(world: World, run: Run) -> None:
    if run.exit is not None and run.exit.kind is ExitKind.RUNNER_LOST and run.id not in world.truth.dead:
        demand(any(was_hurt(world, slot.node) for slot in run.placement), f"{run.id} was well, and was given up: {run.exit.message}")


def processes_are_gone(world: World, job: Job, run: Run) -> None:
    """Of what has ended nothing is alive; only of a lost run something may be, and then its VRAM is in quarantine."""
    for machine in world.machines.values():
        found = machine.runs.get(run.id)
        if found is None or not found.alive:
            continue
        if job.status.phase is Phase.CANCELLED:
            given_up = not machine.askable or was_hurt(world, machine.name)  # before its code was started, which it never will be
            demand(given_up, f"{job.id} is Cancelled, and {run.id} lives on {machine.name}")
            demand(not found.started, f"{job.id} is Cancelled, and its code still runs on {machine.name}")
        record = world.records.get(machine.name)
        kept = record is not None and any(each.run == str(run.id) for each in record.status.quarantine)
        demand(kept, f"{job.id} has ended, {run.id} lives on {machine.name}, and its VRAM is not in quarantine")


def the_bill_is_exact(world: World, job: Job) -> None:
    posted: Counter[str] = Counter()
    for entry in world.money._journal:
        if entry.kind == "charge" and entry.key == job.uid:
            posted[entry.account] += entry.amount.micro
    owed: Counter[str] = Counter()
    for run in job.status.runs if job.spec.billed else ():
        for account, amount in totals(run.price, run.ran).items():
            owed[account] += amount.micro
        owed[user_account(job.spec.user)] -= cost(run.price, run.ran).micro
    same = {account: micro for account, micro in posted.items() if micro} == {account: micro for account, micro in owed.items() if micro}
    demand(same, f"{job.id} owes {dict(owed)}, and posted is {dict(posted)}")
    for run in job.status.runs if job.spec.billed else ():
        told = world.metering._events.get(f"{job.uid}/{run.id}/final/{run.ran.ms}")
        same = run.ran == Span(0) or (told is not None and told.total == cost(run.price, run.ran))
        demand(same, f"the final charge of {run.id} was told to whoever meters as {told}")
    due = sum(cost(run.price, run.ran).micro for run in job.status.runs) if job.spec.billed else 0
    demand(job.status.charged == Credits(due), f"{job.id} says it was charged {job.status.charged}, not {Credits(due)}")


def the_result_is_kept(world: World, job: Job) -> None:
    status = job.status
    if status.phase is Phase.COMPLETED:
        stored = world.blobs.stat(status.result.key) if status.result is not None else None
        demand(stored is not None, f"{job.id} is Completed without a result in the store")
        return
    for run in status.runs:
        machine = world.truth.produced.get(run.id)
        if machine is None or len(run.placement) > 1:
            continue
        raised = run.exit is not None and run.exit.kind is ExitKind.RAISED and status.result is not None
        cancelled = status.cancel is not None and run.exit is not None and run.exit.kind is ExitKind.RAISED
        told = status.condition(RESULT_STORED)
        waited = run.ended_at is not None and world.clock.now() - run.ended_at > world.house.terms.result_bound
        given_up = waited and told is not None and told.reason == GIVEN_UP
        excused = was_hurt(world, machine) or raised or cancelled or given_up
        demand(excused, f"{job.id} left a result on {machine}, and is {status.phase}: {status.reason}")


def the_ledger_adds_up(world: World) -> None:
    process = world.process
    if process is None or world.busy(process):
        return
    ledger = process.scheduler.ledger
    for node in ledger.view().nodes.values():
        for gpu in node.gpus:
            parts, total = gpu.free.n + gpu.booked.n + gpu.quarantined.n, gpu.gpu.total.n
            if parts == total:
                continue
            told = f"{node.name}: GPU {gpu.gpu.index} has {gpu.gpu.total}; free, booked and quarantined are {parts}"
            demand(parts > total and not gpu.free.n and gpu.booked.n <= total, told)
            demand(strangers(world, process, node.name, gpu.gpu.index), told)


def strangers(world: World, process: Process, node: str, gpu: int) -> bool:
    """Whether a run that another term placed is kept on that GPU: its slots may be those of one that this term does not know to
    have ended. Then the ledger keeps both, and offers nothing of it."""
    kept = process.scheduler.ledger.quarantined()
    placed = {str(run.id): run.epoch for job in world.stored() for run in job.status.runs}
    here = [run for run, slots in kept.items() if any((slot.node, slot.gpu) == (node, gpu) for slot in slots)]
    return any(placed.get(run) != process.epoch for run in here)


def what_is_booked_lives(world: World) -> None:
    """Of every job of which the scheduler knows what is stored: booked or kept is what lives, and only that."""
    process = world.process
    if process is None or world.busy(process):
        return
    scheduler, stored = process.scheduler, {job.id: job for job in world.stored()}
    for run in scheduler.ledger.runs():
        job, known = stored.get(run.workload), scheduler._jobs.get(run.workload)
        if run.workload in scheduler._stale or (known is not None and (job is None or known.version != job.version)):
            continue
        lives = job is not None and any(each.id == run and each.state is not RunState.ENDED for each in job.status.runs)
        demand(lives, f"{run} is booked and does not live")
    for job in stored.values():
        live, known = job.status.run, scheduler._jobs.get(job.id)
        heard = known is not None and (known.version == job.version or job.version in scheduler._past.get(job.id, ()))
        if live is None or live.state is RunState.ENDED or not heard or job.id in (*scheduler._stale, *scheduler._bookings.homeless):
            continue
        kept = scheduler.ledger.placement(live.id) is not None or str(live.id) in scheduler.ledger.quarantined()
        demand(kept, f"{live.id} lives, and its VRAM is offered to others")


def check_at_rest(world: World) -> None:
    """After faults have stopped and all has ended: nothing is left anywhere."""
    process = world.process
    demand(process is not None, "nobody schedules")
    assert process is not None
    left = [f"{job.id} {job.status.phase} {job.status.waiting}" for job in world.live_jobs()]
    demand(not left, f"these have not ended: {left}")
    demand(not process.scheduler.ledger.runs(), f"booked without a live run: {process.scheduler.ledger.runs()}")
    demand(not process.scheduler.ledger.quarantined(), f"quarantined for nothing: {process.scheduler.ledger.quarantined()}")
    for record in world.records.list():
        demand(not record.status.quarantine, f"{record.name} keeps in quarantine {record.status.quarantine}")
    for node in process.scheduler.roster.all():
        demand(not node.ran, f"{node.name} tells of {list(map(str, node.ran))}, which no workload holds")
    for machine in world.machines.values():
        demand(not machine.runs, f"{machine.name} was not told to forget {list(machine.runs)}")
    open_holds = [key for key, hold in world.money._holds.items() if hold.open]
    demand(not open_holds, f"holds are open: {open_holds}")
