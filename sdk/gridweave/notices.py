"""What is said of a job that waits where no line of progress is drawn: in a pipe, a notebook, the output of a batch system.

One line on stderr when it begins to wait, with the queue's reason. Another when that is of another kind, but seldom: a log is
read later, and its reader does not want to know how a position changed.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from typing import Self

from gridweave.asides import say
from gridweave.progress import in_words
from gridweave.streams import State

_SELDOM = 30.0  # seconds between two of them
_MOMENT = 2.0  # seconds within which a job that waits for nothing in particular is placed


class Notices:
    """Of one job. Leave it at its end. moment: seconds for which a wait without a reason is not told of."""

    def __init__(
        self, job_id: str, to: Callable[[str], None] = say, now: Callable[[], float] = time.monotonic, moment: float = _MOMENT
    ) -> None:
        self._job_id, self._to, self._now, self._moment = job_id, to, now, moment
        self._said: str | None = None  # the kind of reason
        self._said_at = -math.inf
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def state(self, state: State) -> None:
        """What the job is doing now."""
        self._stop()
        if state.phase != "Pending":
            self._said = None
        elif state.waiting or self._said is not None:
            self._say(state)
        else:
            self._timer = threading.Timer(self._moment, self._say, (state,))
            self._timer.daemon = True
            self._timer.start()

    def _say(self, state: State) -> None:
        kind = kind_of(state.waiting)
        if kind == self._said or self._now() < self._said_at + _SELDOM:
            return
        self._said, self._said_at = kind, self._now()
        self._to(f"Job {self._job_id} is Pending ({in_words(state)})")

    def _stop(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def kind_of(reason: str) -> str:
    """A reason without what changes from one look to the next: its amounts, and what it says of single nodes."""
    return re.sub(r"\d+", "", re.split("[:;]", reason)[0])
