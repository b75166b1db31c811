"""A trace played through the decisions of production under a virtual clock: who waits how long, runs where, pays what.

It goes from event to event: jobs end and give back what they held, jobs come and are refused if no machine could ever
hold them, and then the queue has its round. Ledger, queue, owner policy, prices and charges are the very classes that the
scheduler and the biller use. What is left out: setting up (a run starts when it is placed), failures, and balances:
everybody can pay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from core.ledger import VramLedger
from core.owners import Pool, pools
from core.pricing import price
from core.queue import Closed, Queue, Turn
from core.simulation.submissions import Moment, Outcome, Replayed, Submission
from core.turns import reserve_in_turn
from ports.errors import Invalid, Refused
from ports.tariffs import Tariff
from ports.units import Instant, Mib
from ports.workloads import Ask, BlobRef, Job, JobSpec, RunId

TOLD_EVERY = 200  # events
_NOTHING = BlobRef("0" * 64, 0)


def replay(
    ledger: VramLedger, submissions: Iterable[Submission], tariff: Tariff, told: Callable[[int], object] = lambda events: None
) -> Replayed:
    """Play it to the end of the last job. ledger: the fleet, with nothing booked; nothing is booked afterwards either.

    told: is given the number of events so far, now and then; there are at most two per submission. Raises Invalid if two
    submissions have one id.
    """
    coming = sorted(submissions, key=lambda each: (each.at, each.id))
    if len({each.id for each in coming}) < len(coming):
        raise Invalid("Two submissions have the same id.", "id", "Give each an id of its own.")
    world = _World(ledger, tariff)
    events = at = 0
    while at < len(coming) or world.ends:
        now = min([each.at.ms for each in coming[at : at + 1]] + [end for end, _ in world.ends[:1]])
        before = events
        while world.ends and world.ends[0][0] <= now:
            world.end()
            events += 1
        while at < len(coming) and coming[at].at.ms == now:
            world.submit(coming[at])
            at += 1
            events += 1
        world.round(Instant(now))
        if events // TOLD_EVERY > before // TOLD_EVERY:
            told(events)
    return Replayed(tuple(world.outcome(each) for each in coming), tuple(world.moments), world.fleet)


class _World:
    """ends: when what runs will end, soonest first."""

    def __init__(self, ledger: VramLedger, tariff: Tariff) -> None:
        self._ledger, self._tariff, self._queue = ledger, tariff, Queue()
        view = ledger.view()
        self.fleet = sum(each.gpu.total.n for node in view.nodes.values() for each in node.gpus)
        self._classes = tuple(view.classes)
        self._largest: dict[tuple[Ask, tuple[Pool, ...]], Mib] = {}
        self._submissions: dict[str, Submission] = {}
        self._outcomes: dict[str, Outcome] = {}
        self.ends: list[tuple[int, str]] = []
        self.moments: list[Moment] = []
        self._booked, self._now = 0, Instant(0)

    def submit(self, given: Submission) -> None:
        self._submissions[given.id] = given
        refusal = self._refusal(given)
        if refusal:
            self._outcomes[given.id] = Outcome(given, refusal=refusal)
        else:
            spec = JobSpec(given.user, given.plan, given.id, given.ask, _NOTHING, _NOTHING)
            self._queue.put(Job(given.id, given.id, given.at, spec))

    def end(self) -> None:
        """The next one that ends gives back what it holds."""
        _, job_id = heappop(self.ends)
        self._booked -= sum(slot.mib.n for slot in self._outcomes[job_id].placement)
        self._ledger.release(RunId(job_id, 1))

    def round(self, now: Instant) -> None:
        self._now = now
        if len(self._queue):
            self._queue.round(self._place, self._classes)
        if self.moments and self.moments[-1].at == now:  # what was placed just now has ended at once
            self.moments.pop()
        self.moments.append(Moment(now, self._booked, len(self._queue), len(self.ends)))

    def outcome(self, given: Submission) -> Outcome:
        return self._outcomes.get(given.id) or Outcome(given, refusal="It found no room, though nothing else ran.")

    def _refusal(self, given: Submission) -> str:
        """Why it is refused at submit, "" if it is not."""
        try:
            wanted = pools(given.user, given.plan, given.ask.owner)
        except Refused as error:
            return str(error)
        shape = (Ask(Mib(1), given.ask.gpus, given.ask.workers, given.ask.model, given.ask.vendor), wanted)
        if shape not in self._largest:
            self._largest[shape] = self._ledger.largest(*shape)
        largest = self._largest[shape]
        return "" if given.ask.mib <= largest else f"No machine could ever hold it: the most per GPU in this shape is {largest}."

    def _place(self, job: Job, wanted: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        ask = job.spec.ask
        placement = reserve_in_turn(self._ledger, RunId(job.id, 1), ask, wanted, closed, lambda: self._classes)
        if placement is None:
            return Turn.WAITS
        given = self._submissions[job.id]
        self._outcomes[job.id] = Outcome(given, self._now, placement, price(placement, self._ledger, self._tariff, given.user))
        self._booked += sum(slot.mib.n for slot in placement)
        heappush(self.ends, (self._now.ms + given.ran.ms, job.id))
        return Turn.PLACED
