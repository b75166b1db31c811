"""Runs that are on a node, or may be, and should not be: killed until they are gone, then forgotten.

A run is an orphan only if a read of its object, made after its agent reported it, says so. Its VRAM is kept from
everybody until its agent says that every process of it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from core.roster import Node, Roster
from core.talks import Talks
from ports.cluster import Command, Forget, Kill, ReportState, RunReport
from ports.units import Span
from ports.workloads import Job, Phase, RunId, RunState


class Orphans:
    """tell: sends a command, unless it was sent a moment ago. fresh: reads an object now."""

    def __init__(
        self,
        roster: Roster,
        talks: Talks,
        tell: Callable[[str, Command], None],
        fresh: Callable[[str], Job | None],
        now: Callable[[], Span],
    ) -> None:
        self._roster, self._talks, self._tell, self._fresh, self._now = roster, talks, tell, fresh, now
        self._freed = False
        self._suspects: dict[tuple[str, RunId], None] = {}

    def add(self, node: str, run: RunId) -> None:
        """That run may be there without a right to be, or may have left something there."""
        self._suspects[node, run] = None

    def has(self, run: RunId) -> bool:
        """Whether a run of that name is a suspect on some node."""
        return any(each == run for _, each in self._suspects)

    def forgotten(self, node: str, run: RunId) -> None:
        """Its agent knows nothing of it any more."""
        self._roster.forget(node, run)
        self._talks.drop(node, run)

    def look(self, jobs: Mapping[str, Job], stale: Collection[str]) -> bool:
        """Look at each suspect; those that are settled are none any more. True if VRAM was freed. Raises Unavailable."""
        self._freed = False
        for name, run in tuple(self._suspects):
            node, job = self._roster.get(name), jobs.get(run.workload)
            if node is None or not node.answered:
                if node is not None and node.record.spec.gone and run.workload not in stale and not _is_live(job, run):
                    self.forgotten(name, run)
                del self._suspects[name, run]  # it comes up again with the node
            elif run.workload in stale:
                self._keep(node, run, jobs)
            elif _is_live(job, run) or self._settle(node, run, job):
                del self._suspects[name, run]
        return self._freed

    def _keep(self, node: Node, run: RunId, jobs: Mapping[str, Job]) -> None:
        """Nobody can say yet whether it may be there. If nothing is booked for it, since its object could not be read in this
        term, what it holds is nobody else's."""
        report = node.reports.get(run)
        if run.workload not in jobs and report is not None and report.state is not ReportState.GONE:
            self._roster.quarantine(run, report.slots)

    def _settle(self, node: Node, run: RunId, job: Job | None) -> bool:
        """Whether nothing more is to be done about it."""
        report = node.reports.get(run)
        if report is None:
            if not self._talks.about(node.name, run).absent:
                return self._kill(node.name, run)
            self._lift(node.name, run)
            self.forgotten(node.name, run)
            return True
        if report.state is not ReportState.GONE:
            return self._end(node, run, report)
        self._lift(node.name, run)
        if job is not None and job.status.phase is Phase.CLOSING and job.status.run is not None and job.status.run.id == run:
            return True  # its result may have to be uploaded yet
        self._tell(node.name, Forget(run))
        return False

    def _end(self, node: Node, run: RunId, report: RunReport) -> bool:
        self._roster.quarantine(run, report.slots)
        return self._kill(node.name, run)

    def _kill(self, node: str, run: RunId) -> bool:
        """Also what its agent does not tell of: its answer, that it knows none, bars it there. True if it has a right to be."""
        if not self._talks.due(node, run, Kill, self._now()):
            return False
        if _is_live(self._fresh(run.workload), run):
            return True
        self._tell(node, Kill(run))
        return False

    def _lift(self, node: str, run: RunId) -> None:
        if self._roster.lift(node, run):
            self._freed = True


def _is_live(job: Job | None, run: RunId) -> bool:
    return job is not None and any(each.id == run and each.state is not RunState.ENDED for each in job.status.runs)
