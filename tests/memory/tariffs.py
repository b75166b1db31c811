"""Tariffs in a list. For simulations and unit tests."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort

from ports.errors import Conflict, NotFound
from ports.tariffs import Tariff
from ports.units import Instant


class MemoryTariffs:
    """`ports.tariffs.Tariffs`."""

    def __init__(self, *tariffs: Tariff) -> None:
        self._tariffs: list[Tariff] = []
        self._by_day: list[Tariff] = []
        self._lock = threading.Lock()
        for tariff in tariffs:
            self.publish(tariff)

    def in_force(self, at: Instant) -> Tariff:
        with self._lock:
            found = bisect_right(self._by_day, at, key=lambda each: each.effective)
            if found:
                return self._by_day[found - 1]
        raise NotFound("No tariff is in force at that time.", "tariff", "Publish one that is effective from then or before.")

    def history(self) -> tuple[Tariff, ...]:
        with self._lock:
            return tuple(self._tariffs)

    def publish(self, tariff: Tariff) -> Tariff:
        with self._lock:
            if tariff.version != len(self._tariffs) + 1:
                raise Conflict(f"tariff {tariff.version}")
            self._tariffs.append(tariff)
            insort(self._by_day, tariff, key=lambda each: (each.effective, each.version))
        return tariff
