"""Who schedules, by the Lease that a control service keeps for those who can't reach the Kubernetes API.

What the service says holds from before it was asked. Who gets no answer any more counts as deposed before his Lease
expires, by the same proportions as one who asks Kubernetes itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from adapters.remote.line import Line
from ports.errors import Unavailable
from ports.leadership import Elections, Holder
from ports.units import Span

DURATION = Span.of(seconds=15)


def _boottime() -> Span:
    """Goes on while the machine sleeps or the process is stopped."""
    return Span(int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000))


class RemoteLeadership:
    """`ports.leadership.Leadership`. identity: fresh in each process. lasts: of a Lease that is not renewed."""

    def __init__(self, line: Line, identity: str, lasts: Span = DURATION, elapsed: Callable[[], Span] = _boottime) -> None:
        self._line, self._identity, self._lasts, self._elapsed = line, identity, lasts, elapsed
        self._deadline, self._retry = Span(lasts.ms * 2 // 3), Span(lasts.ms * 2 // 15)
        self._mutex = threading.Lock()
        self._renewed: Span | None = None  # when it was asked that last said yes; None: it does not hold it

    def acquire(self) -> bool:
        with self._mutex:
            now, renewed = self._elapsed(), self._renewed
            if renewed is not None and now - renewed < self._retry:
                return True
            try:
                held: bool = self._line.call("elections", Elections.stand, self._identity, self._lasts)
            except Unavailable:
                if renewed is None:
                    raise
                if not (held := self._elapsed() - renewed < self._deadline):
                    self._renewed = None
                return held
            self._renewed = now if held else None
            return held

    def release(self) -> None:
        with self._mutex:
            if self._renewed is not None:
                self._renewed = None
                self._line.call("elections", Elections.resign, self._identity)

    def holder(self) -> Holder | None:
        found: Holder | None = self._line.call("elections", Elections.holder)
        return found
