"""What the ledger holds for each job, kept in step with what is stored of it.

A live run has its slots booked. One that has ended gives them back where it is gone for certain; where its agent can't
be asked, or has not said so yet, they go to quarantine.
"""

from __future__ import annotations

from attrs import frozen

from core.ledger import VramLedger
from core.roster import Roster
from core.talks import Talks
from ports.workloads import Job, Placement, RunId, RunState


@frozen
class _Held:
    run: RunId
    placement: Placement


class Bookings:
    """homeless: jobs whose stored booking can't be honoured, since their slots are another's."""

    def __init__(self, ledger: VramLedger, roster: Roster, talks: Talks) -> None:
        self._ledger, self._roster, self._talks = ledger, roster, talks
        self._held: dict[str, _Held] = {}
        self.homeless: set[str] = set()

    def reserved(self, job_id: str, run: RunId, placement: Placement) -> None:
        """The ledger has booked it; whether it is stored is not known yet."""
        self._held[job_id] = _Held(run, placement)

    def follow(self, job: Job) -> bool:
        """Make the ledger's picture that of the object; True if something was given back.

        A predecessor that was paused may have stored the same run elsewhere, between our booking and our write, which came too late.
        """
        run = job.status.run
        live = run if run is not None and run.state is not RunState.ENDED else None
        held = self._held.get(job.id)
        if live is None:
            self.homeless.discard(job.id)
        given = False
        agreed = held is not None and live is not None and (held.run, held.placement) == (live.id, live.placement)
        if held is not None and not agreed:
            given = self.drop(job.id)
        if live is not None and not agreed:
            self._adopt(job.id, live.id, live.placement, live.state is RunState.RUNNING)
        return given

    def drop(self, job_id: str) -> bool:
        """What it held is held for it no more. True if it held something."""
        held = self._held.pop(job_id, None)
        self.homeless.discard(job_id)
        if held is None:
            return False
        unsure = [slot for slot in held.placement if not self._is_clear(slot.node, held.run)]
        if unsure:
            self._roster.quarantine(held.run, unsure)
        for name in dict.fromkeys(slot.node for slot in held.placement if slot not in unsure):
            self._roster.lift(name, held.run)
            self._ledger.lift(held.run, name)
        self._ledger.release(held.run)
        return True

    def _is_clear(self, node: str, run: RunId) -> bool:
        view = self._roster.view(node, run)
        if self._roster.get(node) is None or view.gone or view.over:
            return True
        return view.answered and view.report is None and self._talks.about(node, run).absent

    def _adopt(self, job_id: str, run: RunId, placement: Placement, running: bool) -> None:
        """A booking that this ledger does not know: of an earlier term. Honoured if exactly those slots can be booked;
        what runs already has them, whatever else is booked there, and so has what may be warm there until it is gone."""
        for name in dict.fromkeys(slot.node for slot in placement):
            self._roster.expect(name)
            self._roster.lift(name, run)
        self._ledger.lift(run)
        if self._ledger.adopt(run, placement):
            self.homeless.discard(job_id)
            self._held[job_id] = _Held(run, placement)
            return
        there = placement if running else tuple(slot for slot in placement if not self._is_clear(slot.node, run))
        if there:
            self._ledger.quarantine(run, there)
            self._held[job_id] = _Held(run, placement)
        if not running:
            self.homeless.add(job_id)
