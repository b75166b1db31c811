"""What is to be done next for one job: a pure function of its object, its agents' reports and the time.

There is no other recovery code. A scheduler that was just started, one that lost a message and one in its daily
work all ask the same question, and every step may be taken twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from core.house import Terms
from core.lifecycle import GIVEN_UP
from ports import lifecycle
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
    """Every process of the run is gone, or a node is lost. lost: nodes whose slots go to quarantine first."""

    exit: Exit
    ran: Span
    lost: tuple[str, ...] = ()


@frozen
class Requeue:
    """The run ended before the user's code started: another attempt. lost: nodes whose slots go to quarantine first."""

    exit: Exit
    why: str
    lost: tuple[str, ...] = ()


@frozen
class Renew:
    """The permissions to fetch and to upload that these nodes' agents have may have expired, or nobody serves them any more."""

    nodes: tuple[str, ...]


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


Step = Wait | Fund | Queue | CloseUnplaced | Prepare | Start | Go | Kill | Renew | End | Requeue | Stored | NothingToStore | Close


@frozen
class NodeView:
    """What the scheduler knows of a run's node.

    answered: its agent has said hello in this term and can be asked. gone: declared so by an admin. silent: for how long
    it can't be asked. last_ran: of this run, the last proof of life. report: what its agent says of the run, None if it
    does not know it. absent: without a report, the run can't be there and none of our commands will bring it there.
    refused: why the agent will not have it. stale: its permissions are old or of another term, or it says that they don't work.
    """

    answered: bool
    gone: bool = False
    silent: Span = Span(0)
    last_ran: Span = Span(0)
    report: RunReport | None = None
    absent: bool = True
    refused: str = ""
    stale: bool = False

    @property
    def over(self) -> bool:
        """Its agent says that every process of the run is gone."""
        return self.report is not None and self.report.state is ReportState.GONE

    @property
    def clear(self) -> bool:
        """Nothing of the run is there, and nothing can come."""
        return self.gone or self.over or (self.answered and self.report is None and self.absent)


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
        return CloseUnplaced(Phase.CANCELLED, "Cancelled", f"Cancelled by {lifecycle.who_cancels(job)} before it started.")
    if job.status.holds(LOW_BALANCE):
        return CloseUnplaced(Phase.FAILED, *lifecycle.why_dry(job.status))
    if job.status.attempt > terms.retries:
        last = job.status.run
        message = last.exit.message if last is not None and last.exit is not None else ""
        return CloseUnplaced(
            Phase.FAILED, "NeverStarted", f"{job.status.attempt} attempts ended before the function started. {message}".strip()
        )
    return Queue()


def _live(job: Job, run: Run, nodes: Mapping[str, NodeView], terms: Terms) -> Step:
    views = _of(run, nodes)
    lost = tuple(name for name, view in views.items() if not view.over and _is_lost(run, view, terms))
    rest = {name: view for name, view in views.items() if name not in lost and not view.over}
    if lost or _must_end(job, run, views):
        still = tuple(name for name, view in rest.items() if not view.clear)
        if not still:
            return _ended(job, run, views, lost)
        asked = tuple(name for name in still if views[name].answered)
        return Kill(asked) if asked else Wait()
    if not rest:
        return _ended(job, run, views, ())
    if run.state is RunState.BOOKED:
        unknown = tuple(name for name, view in rest.items() if view.answered and view.report is None)
        if unknown:
            return Prepare(unknown)
        ready = all(view.answered and view.report is not None and view.report.state is not ReportState.PREPARING for view in rest.values())
        return Start() if ready else _renew(rest)
    idle = tuple(
        name for name, view in rest.items() if view.answered and view.report is not None and view.report.state is ReportState.READY
    )
    return Go(idle) if idle else _renew(rest)


def _of(run: Run, nodes: Mapping[str, NodeView]) -> dict[str, NodeView]:
    """The views of its nodes, in the order of its placement."""
    return {name: nodes.get(name, NodeView(answered=False)) for name in dict.fromkeys(slot.node for slot in run.placement)}


def _is_lost(run: Run, view: NodeView, terms: Terms) -> bool:
    """Its node is gone or silent too long, or an agent that has swept does not know a run that was started."""
    if view.gone or (not view.answered and view.silent > terms.lost_after):
        return True
    return run.state is RunState.RUNNING and view.answered and view.report is None


def _must_end(job: Job, run: Run, views: Mapping[str, NodeView]) -> bool:
    """Nobody wants it any more, or one of its nodes can't do its part: then none of the others goes on for nothing."""
    if job.status.cancel is not None or job.status.holds(LOW_BALANCE):
        return True
    if any(view.report is not None and view.over and not _returned(view.report) for view in views.values()):
        return True
    return run.state is RunState.BOOKED and any(view.over or view.refused for view in views.values())


def _returned(report: RunReport) -> bool:
    return report.exit is not None and report.exit.kind is ExitKind.RETURNED


def _renew(views: Mapping[str, NodeView]) -> Step:
    """What is left to do where there is nothing to do: keep the permissions fresh."""
    stale = tuple(
        name for name, view in views.items() if view.answered and view.stale and view.report is not None and not view.report.stored
    )
    return Renew(stale) if stale else Wait()


def _ended(job: Job, run: Run, views: Mapping[str, NodeView], lost: tuple[str, ...]) -> Step:
    reports = [view.report for view in views.values() if view.report is not None]
    at_large = tuple(name for name in lost if not views[name].answered and not views[name].gone)
    ran = max([run.ran, *(report.ran for report in reports), *(view.last_ran for view in views.values())])
    started = run.state is RunState.RUNNING and (bool(lost) or any(report.started for report in reports))
    exits = [report.exit for report in reports if report.exit is not None]
    if started and (job.status.cancel is not None or job.status.holds(LOW_BALANCE)):  # a process that was ended before its `go`
        exits = [evolve(each, kind=ExitKind.KILLED) if each.kind is ExitKind.NEVER_RAN else each for each in exits]
    how = _worst(exits, _loss(views, lost), started)
    if started or how.kind not in (ExitKind.NEVER_RAN, ExitKind.KILLED):
        return End(how, ran, at_large)
    refused = next((f"{name} refused it: {view.refused}" for name, view in views.items() if view.refused), "")
    why = refused or how.message or "Its process ended before the function started; it will be tried again."
    return Requeue(Exit(ExitKind.NEVER_RAN, message=refused or how.message), why, at_large)


def _loss(views: Mapping[str, NodeView], lost: tuple[str, ...]) -> str:
    """What is to be said of lost nodes, "" if there are none."""
    if not lost:
        return ""
    if any(views[name].gone for name in lost):
        return "Its node was declared gone."
    unanswered = any(not views[name].answered for name in lost)
    return "Its node can't be asked any more." if unanswered else "Its node's agent does not know it any more."


_BLAME = (ExitKind.RAISED, ExitKind.SETUP_FAILED, ExitKind.SIGNALLED, ExitKind.EXITED)  # what made the others end, first


def _worst(exits: list[Exit], loss: str, started: bool) -> Exit:
    """Of the exits of all its processes, the one that says why the run ended."""
    blamed = [each for kind in _BLAME for each in exits if each.kind is kind]
    if blamed:
        return blamed[0]
    if loss:
        return Exit(ExitKind.RUNNER_LOST if started else ExitKind.NEVER_RAN, message=loss)
    for kind in (ExitKind.RUNNER_LOST, ExitKind.NEVER_RAN):
        found = next((each for each in exits if each.kind is kind), None)
        if found is not None:
            return evolve(found, kind=ExitKind.RUNNER_LOST if started else ExitKind.NEVER_RAN)
    for kind in (ExitKind.KILLED, ExitKind.RETURNED):
        found = next((each for each in exits if each.kind is kind), None)
        if found is not None:
            return found
    return Exit(ExitKind.RUNNER_LOST if started else ExitKind.NEVER_RAN, message="Its agent gave no exit." if started else "")


def _closing(job: Job, run: Run, nodes: Mapping[str, NodeView], now: Instant, terms: Terms) -> Step:
    if job.status.holds(RESULT_STORED):
        return Close()
    if run.exit is None or run.exit.kind is ExitKind.NEVER_RAN:
        return NothingToStore("NeverRan")
    views = _of(run, nodes)
    stored = [view.report for view in views.values() if view.report is not None and view.report.stored]
    waited = {name: view for name, view in views.items() if not _has_given(run, view, terms)}
    given_up = run.ended_at is not None and now - run.ended_at > terms.result_bound
    if waited and not given_up:
        return _renew(waited)
    if stored:
        return Stored(next((report for report in stored if report.result is not None), stored[0]))
    return NothingToStore(GIVEN_UP if waited else "Lost")


def _has_given(run: Run, view: NodeView, terms: Terms) -> bool:
    """Whether that node has uploaded all that it will ever upload."""
    if view.gone or (view.report is not None and view.report.stored):
        return True
    lost = run.exit is not None and run.exit.kind is ExitKind.RUNNER_LOST and view.silent > terms.lost_after
    return lost or (view.answered and view.report is None)
