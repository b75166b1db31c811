"""A walk over the failpoints of a gateway: which there are, and a SIGKILL at each, with jobs on their way.

The gateway that dies at one point is followed by the one that will die at the next, so that what a crash leaves behind is
taken up by a process that crashes too. Every few points one lives on, and everything must be in order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from runtimes.failpoints import FAILPOINT, LOG
from tests.e2e.rig import Rig
from tests.e2e.volleys import ALL, Volleys

PATIENCE = 400  # looks, a twentieth of a second apart, for the gateway to die
ROUND = 12  # points from one look at everything to the next


NEEDED = {
    ".delete": "refused",
    "_refuse": "refused",
    "agent.kill": "cancelled",
    "<jobs.cancel": "cancelled",
    "jobs.cancel<": "cancelled",
    "_flag": "exhausted",
}

SOMETIMES = ("_say_waiting",)  # a job that comes before the nodes have been heard is told to wait; one that comes later is not


def kinds(point: str) -> tuple[str, ...]:
    """The jobs without which that point is not reached, and one more."""
    return ("returns", *dict.fromkeys(kind for part, kind in NEEDED.items() if part in point))


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


@define
class Walk:
    rig: Rig
    folder: Path
    _serial: int = field(default=0, init=False)

    def record(self) -> list[str]:
        """Every call that a gateway makes from its start until jobs of each kind have ended, each named once."""
        log = self.folder / "calls"
        self._restart({LOG: str(log)})
        volleys = self._volleys()
        volleys.fire(*ALL)
        volleys.join()
        time.sleep(1.1)  # a round that has something to forget
        calls = sorted(set(log.read_text().split()))
        volleys.check()
        return calls

    def die_at(self, points: Iterable[str], every: int = ROUND) -> None:
        """every: points until one gateway lives on. Raises AssertionError for a point that was not reached, or if anything is wrong."""
        left = list(points)
        while left:
            batch, left = left[:every], left[every:]
            volleys = self._volleys()
            try:
                for point in batch:
                    self._die(point, volleys, ALL if point is batch[0] else kinds(point))
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
        volleys.fire(*kinds)
        for _ in range(PATIENCE):
            if log.exists() and f"!{point}" in log.read_text().split():
                return
            time.sleep(0.05)
        if not any(part in point for part in SOMETIMES):
            raise AssertionError(f"{point} was not reached")

    def _restart(self, settings: dict[str, str]) -> None:
        rig = self.rig
        rig.gateway.kill()
        kept = {name: value for name, value in rig.gateway.settings.items() if name not in (FAILPOINT, LOG)}
        rig.gateway.settings = {**kept, **settings}
        rig.gateway.start()

    def _volleys(self) -> Volleys:
        self._serial += 1
        folder = self.folder / f"volley-{self._serial}"
        folder.mkdir()
        return Volleys(self.rig, folder)
