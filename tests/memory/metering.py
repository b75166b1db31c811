"""Usage events in a dict. For simulations and unit tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ports.metering import Usage


class MemoryMetering:
    """`ports.metering.Metering`."""

    def __init__(self) -> None:
        self._events: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def record(self, usage: Sequence[Usage]) -> None:
        with self._lock:
            for each in usage:
                self._events.setdefault(each.id, each)

    def recorded(self) -> tuple[Usage, ...]:
        return tuple(self._events.values())
