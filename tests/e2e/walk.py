"""A walk over the failpoints of a process: which there are, and a SIGKILL at each, with jobs on their way.

The process (a gateway, unless another is named) that dies at one point is followed by the one that will die at the next, so
that what a crash leaves behind is taken up by a process that crashes too. Every few points one lives on, and everything must
be in order.

Some places are come by only if two things meet: a job that is told to wait came before the nodes were heard, a conflict needs
another writer, or nobody else that finishes a job first. Such a place is tried for three times, then with jobs of every kind; if
it is not come by, it is noted in `missed`. Whoever walks says which may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from attrs import define, field

from runtimes.failpoints import FAILPOINT, LOG
from tests.e2e.rig import Rig
from tests.e2e.volleys import ALL, Volleys

LOOK = 0.05  # seconds from one look at the victim to the next
BOOT = 2400  # looks for its first call: on a busy machine most of the time is its start
PATIENCE = 200  # looks, from its first call on, for it to die; in each of its tries
ROUND = 16  # points from one look at everything to the next


NEEDED = {
    ".delete": "refused",
    "_unhold": "refused",
    "_refuse": "refused",
    "agent.kill": "cancelled",
    "<jobs.cancel": "cancelled",
    "jobs.cancel<": "cancelled",
    "_flag": "exhausted",
}


def kinds(point: str) -> tuple[str, ...]:
    """The jobs without which that point is not reached, and one more."""
    return ("returns", *dict.fromkeys(kind for part, kind in NEEDED.items() if part in point))


def _nothing() -> None:
    return


@contextmanager
def restarts(rig: Rig) -> Iterator[None]:
    """Whatever happens to the gateway within, it is as before afterwards."""
    settings = rig.gateway.settings
    rig.gateway.settings = {**settings, "SETUP_BOUND_SECONDS": "120"}  # inputs wait for the gateway that is killed
    try:
        yield
    finally:
        rig.gateway.kill()
        rig.gateway.settings = settings
        rig.gateway.start()
        rig.gateway.ready()


class Victim(Protocol):
    settings: Mapping[str, str]

    def kill(self) -> None: ...

    def start(self) -> None: ...


@define
class Walk:
    """victim: None: the rig's gateway. sent: kinds of jobs. meanwhile: done when it was killed, before its next life.

    died, missed: points at which it has died, and those that it never came by.
    """

    rig: Rig
    folder: Path
    victim: Victim | None = None
    sent: tuple[str, ...] = ALL
    meanwhile: Callable[[], object] = _nothing
    died: list[str] = field(factory=list, init=False)
    missed: list[str] = field(factory=list, init=False)
    _serial: int = field(default=0, init=False)

    def record(self) -> list[str]:
        """Every call that a gateway makes from its start until jobs of each kind have ended, each named once."""
        log = self.folder / "calls"
        self._restart({LOG: str(log)})
        volleys = self._volleys()
        volleys.fire(*self.sent)
        volleys.join()
        time.sleep(1.1)  # a round that has something to forget
        calls = sorted(set(log.read_text().split()))
        volleys.check()
        return calls

    def die_at(self, points: Iterable[str], every: int = ROUND) -> None:
        """every: points until one gateway lives on. Raises AssertionError if anything is wrong after it."""
        left = list(points)
        while left:
            batch, left = left[:every], left[every:]
            volleys = self._volleys()
            try:
                for point in batch:
                    self._die(point, volleys, self.sent if point is batch[0] else kinds(point))
                self._restart({})
                volleys.join()
                volleys.check()
            except BaseException as error:
                error.add_note(f"after a death at each of {batch}")
                volleys.give_up()
                raise

    def _die(self, point: str, volleys: Volleys, kinds: tuple[str, ...]) -> None:
        log = self.folder / "reached"
        log.unlink(missing_ok=True)
        self._restart({FAILPOINT: point, LOG: str(log)})
        for each in (kinds, self.sent, self.sent):
            volleys.fire(*each)
            if self._has_died(log, point):
                self.died.append(point)
                return
        self.missed.append(point)

    @staticmethod
    def _has_died(log: Path, point: str) -> bool:
        for _ in range(BOOT):
            if log.exists():
                break
            time.sleep(LOOK)
        for _ in range(PATIENCE):
            if log.exists() and f"!{point}" in log.read_text().split():
                return True
            time.sleep(LOOK)
        return False

    def _restart(self, settings: dict[str, str]) -> None:
        victim = self.victim or self.rig.gateway
        victim.kill()
        self.meanwhile()
        kept = {name: value for name, value in victim.settings.items() if name not in (FAILPOINT, LOG)}
        victim.settings = {**kept, **settings}
        victim.start()

    def _volleys(self) -> Volleys:
        self._serial += 1
        folder = self.folder / f"volley-{self._serial}"
        folder.mkdir()
        return Volleys(self.rig, folder)
