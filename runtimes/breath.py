"""How long a thread that follows a store lets changes gather before it looks again.

A look costs about as much for one change as for many. Where nothing else happens it comes at once; where hundreds of changes
come each second, those who follow must not take the processor from those who make them.
"""

from __future__ import annotations

import time

LEAST_S, MOST_S = 0.002, 0.025
REST = 10  # times as long as a look has taken of the processor


class Breath:
    """Of the thread that makes it."""

    def __init__(self) -> None:
        self._used = time.thread_time()

    def seconds(self) -> float:
        """To be waited after a look that has found something; by what the thread has worked since the last call."""
        before, self._used = self._used, time.thread_time()
        return min(MOST_S, max(LEAST_S, REST * (self._used - before)))
