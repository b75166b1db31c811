"""Tariffs in a list. For simulations and unit tests."""

from __future__ import annotations

import threading

from ports.errors import Conflict, NotFound
from ports.tariffs import Tariff
from ports.units import Instant


class MemoryTariffs:
    """`ports.tariffs.Tariffs`."""

    def __init__(self, *tariffs: Tariff) -> None:
        self._tariffs: list[Tariff] = []
        self._lock = threading.Lock()
        for tariff in tariffs:
            self.publish(tariff)

    def in_force(self, at: Instant) -> Tariff:
        for tariff in sorted(self.history(), key=lambda each: (-each.effective.ms, -each.version)):
            if tariff.effective <= at:
                return tariff
        raise NotFound("No tariff is in force at that time.", "tariff", "Publish one that is effective from then or before.")

    def history(self) -> tuple[Tariff, ...]:
        with self._lock:
            return tuple(self._tariffs)

    def publish(self, tariff: Tariff) -> Tariff:
        with self._lock:
            if tariff.version != len(self._tariffs) + 1:
                raise Conflict(f"tariff {tariff.version}")
            self._tariffs.append(tariff)
        return tariff
