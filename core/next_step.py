"""What is to be done next for one job: a pure function of its object, its agents' reports and the time.

There is no other recovery code. A scheduler that was just started, one that lost a message and one in its daily
work all ask the same question, and every step may be taken twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from core.house import Terms
from ports.cluster import ReportState, RunReport
from ports.units import Instant, Span
from ports.workloads import FUNDED, LOW_BALANCE, RESULT_STORED, TERMINAL, ConditionStatus, Exit, ExitKind, Job, Phase, Run, RunState


@frozen
class Wait:
    """Nothing to do until something changes."""


@frozen
class Fund:
    """A submit was left half done: finish it."""


@frozen
class Queue:
    """It is funded and waits for its turn."""


@frozen
class CloseUnplaced:
    """It ends without a run."""

    outcome: Phase
    reason: str
    message: str


@frozen
class Prepare:
    """These nodes' agents do not know the run yet."""

    nodes: tuple[str, ...]


@frozen
class Start:
    """Every agent is ready: compare-and-swap to Running, then go."""


@frozen
class Go:
    """Running is written; these agents have not obeyed yet."""

    nodes: tuple[str, ...]


@frozen
class Kill:
    nodes: tuple[str, ...]


@frozen
class End:
    """Every process of the run is gone, or its node is lost. lost: its slots go to quarantine first."""

    exit: Exit
    ran: Span
    lost: bool = False


@frozen
class Requeue:
    """The run ended before the user's code started: another attempt. lost: its slots go to quarantine first."""

    exit: Exit
    why: str
    lost: bool = False


@frozen
class Stored:
    """The agent has uploaded everything."""

    report: RunReport


@frozen
class NothingToStore:
    """No agent will ever upload anything for it."""

    reason: str


@frozen
class Close:
    """All that remains is to settle the money and write the manifest."""


Step = Wait | Fund | Queue | CloseUnplaced | Prepare | Start | Go | Kill | End | Requeue | Stored | NothingToStore | Close


@frozen
class NodeView:
    """What the scheduler knows of a run's node. answered: its agent has said hello in this term and can be asked.
    gone: declared so by an admin. silent: for how long it can't be asked. last_ran: of this run, the last proof of life."""

    answered: bool
    gone: bool = False
    silent: Span = Span(0)
    last_ran: Span = Span(0)
    report: RunReport | None = None


def next_step(job: Job, nodes: Mapping[str, NodeView], now: Instant, terms: Terms) -> Step:
    """`nodes`: of every node of the newest run's placement."""
    status = job.status
    if status.phase in TERMINAL:
        return Wait()
    if status.phase is Phase.PENDING:
        return _pending(job, now, terms)
    run = status.run
    if run is None:
        return Close() if status.phase is Phase.CLOSING else Wait()
    if status.phase is Phase.CLOSING:
        return _closing(job, run, nodes, now, terms)
    return _live(job, run, nodes, terms)


def _pending(job: Job, now: Instant, terms: Terms) -> Step:
    funded = job.status.condition(FUNDED)
    if funded is not None and funded.status is not ConditionStatus.TRUE:
        age = now - job.created_at  # a clock that jumped makes it sooner or later, and harms nothing
        return Fund() if age > terms.funding_bound or age < Span(0) or funded.status is ConditionStatus.FALSE else Wait()
    if job.status.cancel is not None:
        return CloseUnplaced(Phase.CANCELLED, "Cancelled", "Cancelled by its user before it started.")
    if job.status.holds(LOW_BALANCE):
        return CloseUnplaced(Phase.FAILED, "BalanceExhausted", "Ended because the balance was used up. Top up and submit again.")
    if job.status.attempt > terms.retries:
        last = job.status.run
        message = last.exit.message if last is not None and last.exit is not None else ""
        return CloseUnplaced(
            Phase.FAILED, "NeverStarted", f"{job.status.attempt} attempts ended before the function started. {message}".strip()
        )
    return Queue()


def _live(job: Job, run: Run, nodes: Mapping[str, NodeView], terms: Terms) -> Step:
    names = tuple(dict.fromkeys(slot.node for slot in run.placement))
    views = {name: nodes.get(name, NodeView(answered=False)) for name in names}
    reports = {name: view.report for name, view in views.items()}
    over = {name for name, report in reports.items() if report is not None and report.state is ReportState.GONE}
    lost = {name for name, view in views.items() if name not in over and _is_lost(run, view, terms)}
    if over | lost == set(names):
        return _ended(run, views, lost)
    asked = tuple(name for name in names if views[name].answered and name not in over)
    if over or lost:
        return Kill(asked) if asked else Wait()
    if job.status.cancel is not None or job.status.holds(LOW_BALANCE):
        unknown = tuple(name for name in asked if reports[name] is None)
        if run.state is RunState.BOOKED and len(unknown) == len(names):
            return _never()
        return Kill(asked) if asked else Wait()
    unknown = tuple(name for name in asked if reports[name] is None)
    if run.state is RunState.BOOKED:
        if unknown:
            return Prepare(unknown)
        ready = [report for report in reports.values() if report is not None and report.state is not ReportState.PREPARING]
        return Start() if len(ready) == len(names) else Wait()
    idle = tuple(name for name in asked if (report := reports[name]) is not None and report.state is ReportState.READY)
    return Go(idle) if idle else Wait()


def _is_lost(run: Run, view: NodeView, terms: Terms) -> bool:
    """Its node is gone or silent too long, or an agent that has swept does not know a run that was started."""
    if view.gone or (not view.answered and view.silent > terms.lost_after):
        return True
    return run.state is RunState.RUNNING and view.answered and view.report is None


def _ended(run: Run, views: Mapping[str, NodeView], lost: set[str]) -> Step:
    reports = [view.report for view in views.values() if view.report is not None]
    ran = max([run.ran, *(report.ran for report in reports), *(view.last_ran for view in views.values())])
    started = run.state is RunState.RUNNING and (bool(lost) or any(report.started for report in reports))
    exits = [report.exit for report in reports if report.exit is not None]
    if lost and not any(_is_final(exit_) for exit_ in exits):
        unanswered = any(not views[name].answered for name in lost)
        message = "Its node can't be asked any more." if unanswered else "Its node's agent does not know it any more."
        how = Exit(ExitKind.RUNNER_LOST, message=message)
        return End(how, ran, unanswered) if started else _never(message, lost=unanswered)
    how = next(
        (each for each in exits if _is_final(each)), exits[0] if exits else Exit(ExitKind.RUNNER_LOST, message="Its agent gave no exit.")
    )
    if not started and how.kind in (ExitKind.NEVER_RAN, ExitKind.RUNNER_LOST):
        return Requeue(how, "Its process ended before the function started; it will be tried again.")
    return End(how, ran)


def _is_final(how: Exit) -> bool:
    return how.kind not in (ExitKind.NEVER_RAN, ExitKind.RUNNER_LOST)


def _never(message: str = "", lost: bool = False) -> Step:
    return Requeue(Exit(ExitKind.NEVER_RAN, message=message), message or "It will be tried again.", lost)


def _closing(job: Job, run: Run, nodes: Mapping[str, NodeView], now: Instant, terms: Terms) -> Step:
    if job.status.holds(RESULT_STORED):
        return Close()
    if run.exit is None or run.exit.kind is ExitKind.NEVER_RAN:
        return NothingToStore("NeverRan")
    if run.exit.kind is ExitKind.RUNNER_LOST and all(_silent(nodes, slot.node) for slot in run.placement):
        return NothingToStore("Lost")
    views = [nodes.get(name, NodeView(answered=False)) for name in dict.fromkeys(slot.node for slot in run.placement)]
    for view in views:
        if view.report is not None and view.report.stored:
            return Stored(view.report)
    if all(view.gone or (view.answered and view.report is None) for view in views):
        return NothingToStore("Lost")
    if run.ended_at is not None and now - run.ended_at > terms.result_bound:
        return NothingToStore("GivenUp")
    return Wait()


def _silent(nodes: Mapping[str, NodeView], name: str) -> bool:
    view = nodes.get(name)
    return view is None or not view.answered
