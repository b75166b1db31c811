"""Hosts the scheduler and the biller in a process that has other work: wait for the lock, run a term, again.

In the embedded default that process is a gateway; whichever holds the lock schedules, the others wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from attrs import asdict, define, field, frozen

from core.archive import archive
from core.house import House
from core.schedule import Pace
from core.sweep import sweep
from core.tick import tick
from ports.cluster import Cluster
from ports.errors import Unavailable
from ports.leadership import Epochs, Leadership
from ports.units import Instant, Span
from runtimes.batch.term import Term

log = structlog.get_logger("gridweave.host")
LOCK_EVERY_S = 1.0
SWEEP_EVERY_S = 3600.0


@frozen
class Round:
    """One that ended. at: when; took: how long it had taken. said: what it did, or why it was cut short."""

    what: str
    at: Instant
    took: Span
    said: str


@define
class Host:
    """connect: makes the cluster's adapter when a term begins; closed by `disconnect` when it ends."""

    house: House
    leadership: Leadership
    epochs: Epochs
    connect: Callable[[], Cluster]
    disconnect: Callable[[Cluster], None]
    tick_every: Span
    scheduling: bool = field(default=False, init=False)
    _stop: threading.Event = field(factory=threading.Event, init=False)
    _term: Term | None = field(default=None, init=False)
    _threads: list[threading.Thread] = field(factory=list, init=False)
    _rounds: dict[str, Round] = field(factory=dict, init=False)

    def rounds(self) -> tuple[Round, ...]:
        """The newest of each kind; none before the first."""
        return tuple(self._rounds.values())

    @property
    def trouble(self) -> str:
        """Why the cluster can't be asked now; "" if it can, or if another process schedules."""
        return self._term.trouble if self._term is not None and self.scheduling else ""

    def _note(self, what: str, began: Span, said: str) -> None:
        clock = self.house.clock
        self._rounds[what] = Round(what, clock.now(), clock.elapsed() - began, said)

    _beat: Span | None = field(default=None, init=False)  # when the loop last came round

    def start(self) -> None:
        self._threads = [
            threading.Thread(target=self.run, name="scheduler", daemon=True),
            threading.Thread(target=self._sweep, name="sweeper", daemon=True),
        ]
        if self.house.terms.credits_enabled:
            self._threads.append(threading.Thread(target=self._bill, name="biller", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 15.0) -> None:
        """End the term, give the lock back."""
        self._stop.set()
        if self._term is not None:
            self._term.stop()
        for thread in self._threads:
            thread.join(timeout_s)

    def silent(self) -> Span:
        """For how long its loop has not come round."""
        now = self.house.clock.elapsed()
        return now - (self._beat if self._beat is not None else now)

    def _keep(self) -> bool:
        self._beat = self.house.clock.elapsed()
        return self.leadership.acquire()

    def run(self) -> None:
        """Terms, one after another, until stopped. Blocks."""
        newest = 0
        while not self._stop.is_set():
            try:
                if not self._keep():
                    self._stop.wait(LOCK_EVERY_S)
                    continue
                newest = self._one_term(newest)
            except Unavailable as error:
                log.warning("no term could be held", error=str(error))
            except Exception:
                log.exception("a term failed")
            self._stop.wait(LOCK_EVERY_S)
        self.leadership.release()

    def _one_term(self, newest: int) -> int:
        cluster = self.connect()
        pace = Pace(ran=min(Pace().ran, self.tick_every))  # a biller can't bill what was not written down
        self._term = Term(self.house, cluster, self.epochs, self._keep, newest, pace)
        if self._stop.is_set():
            self._term.stop()
        self.scheduling = True
        try:
            self._term.run()
            return max(newest, self._term.newest)
        finally:
            self.scheduling = False
            self.disconnect(cluster)

    def _sweep(self) -> None:
        while not self._stop.wait(SWEEP_EVERY_S):
            began = self.house.clock.elapsed()
            try:
                swept = {**asdict(archive(self.house)), **asdict(sweep(self.house))}
                self._note("sweep", began, ", ".join(f"{count} {what}" for what, count in swept.items()))
                log.info("swept", **swept)
            except Unavailable as error:
                self._note("sweep", began, f"cut short: {error}")
                log.warning("nothing swept", error=str(error))

    def _bill(self) -> None:
        """A round per tick; one that takes longer than the interval only makes the next one later."""
        while not self._stop.wait(self.tick_every.seconds):
            began = self.house.clock.elapsed()
            try:
                done = tick(self.house)
            except Unavailable as error:
                self._note("billing", began, f"cut short: {error}")
                log.warning("a billing round was cut short", error=str(error))
                continue
            except Exception as error:
                self._note("billing", began, f"failed: {type(error).__name__}")
                log.exception("a billing round failed")
                continue
            self._note("billing", began, f"{done.runs} runs, {done.posted} posted, {done.flagged} flagged, {len(done.refused)} refused")
            for alarm in done.refused:
                log.error("alarm", what="a charge was refused", **asdict(alarm))
            for cap in done.caps:
                log.info("budget", workload=cap.workload, user=cap.user, percent=cap.percent, charged=str(cap.charged), cap=str(cap.cap))
            for month in done.months:
                log.info("budget", user=month.user, percent=month.percent, left=str(month.left))
            log.debug("billed", runs=done.runs, posted=done.posted, flagged=done.flagged)
