"""One term of scheduling, with its threads: from taking the epoch to losing the lock or being told to stop.

One thread decides (core.schedule); the others only carry: changes of the store, nodes of the cluster, a line per
agent, and a small pool that settles what holds no GPU any more.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

import structlog
from attrs import define, field

from core.close import settle
from core.exposure import NOTHING, Standing, standing
from core.house import House
from core.schedule import Pace, Scheduler
from ports.cluster import STARTING, Cluster, Command
from ports.errors import Conflict, GridweaveError, Refused, StaleEpoch, Unavailable
from ports.leadership import Epochs
from ports.units import Span
from ports.workloads import Job
from runtimes.batch.endings import note_end, note_refusal
from runtimes.batch.events import Answered, Changed, Deposed, Event, Listed, NodeDown, NodeUp, Reported, Settled, Stands
from runtimes.batch.link import POLL, NodeLink
from runtimes.breath import Breath

log = structlog.get_logger("gridweave.scheduler")
WATCH = Span(2_000)  # also the longest that stopping waits for it
IDLE_S = 1.0  # a round at least so often, for what time alone moves on
NODES_EVERY_S = 2.0
STANDING_EVERY_S = 2.0
SETTLERS = 4
BURST = 1_000  # events folded before a round is taken


@define
class Term:
    """keep: asked now and then; False ends the term. reached: when the cluster answered first, None as long as it has not.
    trouble: why the cluster can't be asked now, "" if it can."""

    house: House
    cluster: Cluster
    epochs: Epochs
    keep: Callable[[], bool]
    at_least: int = 0
    pace: Pace = field(factory=Pace)
    newest: int = 0
    reached: Span | None = field(default=None, init=False)
    trouble: str = field(default="", init=False)
    _inbox: SimpleQueue[Event] = field(factory=SimpleQueue, init=False)
    _links: dict[str, NodeLink] = field(factory=dict, init=False)
    _stop: threading.Event = field(factory=threading.Event, init=False)

    def stop(self) -> None:
        """Ask the term to end; `run` returns soon after."""
        self._stop.set()

    def run(self) -> None:
        """Until stopped, deposed or not kept. Raises Unavailable if it can't even begin.

        newest: of a term that has written after this one, and above which the next one has to be.
        """
        began = self.house.clock.elapsed()
        epoch = take_epoch(self.epochs, self.at_least)
        cursor = self.house.workloads.changes("").cursor
        with ThreadPoolExecutor(SETTLERS, "settle") as pool:
            scheduler = Scheduler(self.house, epoch, self._send, lambda job: self._settle(pool, job), self.pace)
            try:
                scheduler.boot()
            except StaleEpoch as error:  # the record of epochs was lost: an object or a node's record knows a newer one
                self._deposed(scheduler.epoch, error)
                return
            took = self.house.clock.elapsed() - began
            log.info("scheduling", epoch=epoch, unfinished=scheduler.unfinished, took_ms=took.ms)
            gc.collect()
            gc.freeze()  # what was taken over stays: to look through it for garbage again and again would hold up bookings
            carriers = [
                threading.Thread(target=self._watch_store, args=(cursor,), name="watch-store", daemon=True),
                threading.Thread(target=self._watch_cluster, args=(epoch,), name="watch-cluster", daemon=True),
            ]
            if self.house.terms.credits_enabled:
                scheduler.stands(self._standing() or NOTHING)
                carriers.append(threading.Thread(target=self._watch_money, name="watch-money", daemon=True))
            for each in carriers:
                each.start()
            try:
                self._decide(scheduler)
            finally:
                gc.unfreeze()
                self._end(carriers)

    def _end(self, carriers: list[threading.Thread]) -> None:
        self._stop.set()
        for link in tuple(self._links.values()):
            link.stop()
        for each in carriers:
            each.join(WATCH.seconds * 2)
        for link in tuple(self._links.values()):  # one of the carriers makes them: by now there are no more
            link.stop()
            link.join(WATCH.seconds * 2)

    def _decide(self, scheduler: Scheduler) -> None:
        while not self._stop.is_set() and self.keep():
            for event in self._events():
                if isinstance(event, Deposed):
                    self.newest = event.newest
                    log.warning("a newer term exists", epoch=scheduler.epoch, newest=event.newest)
                    return
                self._fold(scheduler, event)
            try:
                scheduler.round()
            except StaleEpoch as error:
                self._deposed(scheduler.epoch, error)
                return
            except Unavailable as error:
                log.warning("a round was cut short", error=str(error))
                self._stop.wait(IDLE_S)

    def _deposed(self, epoch: int, error: StaleEpoch) -> None:
        self.newest = error.newest
        log.warning("a newer term exists", epoch=epoch, newest=error.newest, seen=str(error))

    def _events(self) -> list[Event]:
        """What has come, after waiting a while for the first."""
        try:
            events = [self._inbox.get(timeout=IDLE_S)]
        except Empty:
            return []
        while len(events) < BURST:
            try:
                events.append(self._inbox.get_nowait())
            except Empty:
                break
        return events

    @staticmethod
    def _fold(scheduler: Scheduler, event: Event) -> None:
        """No I/O: what an event is about is only marked, and looked at in the next round."""
        match event:
            case Changed(changes):
                scheduler.changed(changes)
            case Reported(name, reports):
                scheduler.reported(name, reports)
            case NodeUp(node, hello, address):
                log.info("a node answers", node=node.name, gpus=len(hello.gpus), runs=len(hello.runs))
                scheduler.node_up(node, hello, address)
            case NodeDown(name, why):
                scheduler.node_down(name, why)
            case Listed(names):
                scheduler.listed(names)
            case Answered(name, command, answer):
                if not answer.ok:
                    note_refusal(name, command, answer, scheduler.user(command.run.workload))
                scheduler.answered(name, command, answer)
            case Settled(job_id):
                scheduler.settled(job_id)
            case Stands(standing):
                scheduler.stands(standing)

    def _send(self, name: str, command: Command) -> None:
        link = self._links.get(name)
        if link is not None:
            link.send(command)

    def _settle(self, pool: ThreadPoolExecutor, job: Job) -> None:
        pool.submit(self._settle_one, job)

    def _settle_one(self, job: Job) -> None:
        try:
            note_end(settle(self.house, job))
        except Refused as error:
            log.info("withdrawn", workload=job.id, user=job.spec.user, why=str(error))
        except GridweaveError as error:
            log.warning("not settled yet", workload=job.id, user=job.spec.user, error=str(error))
        except Exception:
            log.exception("settling failed", workload=job.id, user=job.spec.user)
        finally:
            self._inbox.put(Settled(job.id))

    def _watch_store(self, cursor: str) -> None:
        breath = Breath()
        while not self._stop.is_set():
            try:
                changes = self.house.workloads.changes(cursor, WATCH)
            except Unavailable as error:
                log.warning("the store can't be watched", error=str(error))
                self._stop.wait(IDLE_S)
                continue
            cursor = changes.cursor
            if changes.jobs or changes.deleted or changes.whole:
                self._inbox.put(Changed(changes))
                self._stop.wait(breath.seconds())

    def _watch_money(self) -> None:
        """Whose exposure is above the limit. As long as it can't be read, what was read last holds."""
        told = None
        while not self._stop.wait(STANDING_EVERY_S):
            found = self._standing()
            if found is not None and found != told:
                told = found
                self._inbox.put(Stands(found))

    def _standing(self) -> Standing | None:
        try:
            return standing(self.house.blobs)
        except Unavailable as error:
            log.warning("who may start more can't be read", error=str(error))
            return None

    def _watch_cluster(self, epoch: int) -> None:
        answered = False
        while not self._stop.is_set():
            try:
                seen, answered, self.trouble = self.cluster.nodes(), True, ""
                self.reached = self.reached or self.house.clock.elapsed()
                self._inbox.put(Listed(frozenset(node.name for node in seen if node.alive)))
            except Unavailable as error:
                said = log.debug if error.detail == STARTING and not answered else log.warning
                said("the cluster can't be asked", error=str(error))
                seen, self.trouble = (), str(error)
            for node in seen:
                link = self._links.get(node.name)
                if link is not None:
                    link.node = node
                elif node.alive:
                    if self._stop.is_set():
                        return
                    link = NodeLink(node, self.cluster, epoch, self._inbox.put, min(POLL, self.pace.ran))
                    link.start()
                    self._links[node.name] = link
            self._stop.wait(NODES_EVERY_S)


def take_epoch(epochs: Epochs, at_least: int = 0) -> int:
    """The next epoch: above the stored one and every one that an agent has named."""
    while True:
        seen = epochs.read()
        epoch = max(seen, at_least) + 1
        try:
            epochs.raise_to(epoch, seen)
        except Conflict:
            continue
        return epoch
