"""Endpoints in a dict: the plainest thing that keeps the contract. For unit tests and users' own."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from attrs import evolve

from ports.endpoints import Endpoint, check_endpoint_transition
from ports.errors import AlreadyExists, Conflict
from ports.workloads import checked_id


class MemoryEndpoints:
    """`ports.endpoints.Endpoints`."""

    def __init__(self) -> None:
        self._stored: dict[str, Endpoint] = {}
        self._seq = 0
        self._lock = threading.Lock()

    def create(self, endpoint: Endpoint) -> Endpoint:
        checked_id(endpoint.id)
        with self._lock:
            if endpoint.id in self._stored:
                raise AlreadyExists(endpoint.id)
            return self._store(evolve(endpoint, uid=f"uid-{self._seq}"))

    def get(self, endpoint_id: str) -> Endpoint | None:
        return self._stored.get(endpoint_id)

    def list(self, labels: Mapping[str, str]) -> tuple[Endpoint, ...]:
        with self._lock:
            found = [each for each in self._stored.values() if labels.items() <= each.spec.labels.items()]
        return tuple(sorted(found, key=lambda each: (each.created_at.ms, each.id)))

    def replace(self, endpoint: Endpoint) -> Endpoint:
        with self._lock:
            check_endpoint_transition(self._current(endpoint), endpoint)
            return self._store(endpoint)

    def delete(self, endpoint: Endpoint) -> None:
        with self._lock:
            self._current(endpoint)
            del self._stored[endpoint.id]

    def _current(self, endpoint: Endpoint) -> Endpoint:
        stored = self._stored.get(endpoint.id)
        if stored is None or stored.version != endpoint.version:
            raise Conflict(endpoint.id)
        return stored

    def _store(self, endpoint: Endpoint) -> Endpoint:
        self._seq += 1
        self._stored[endpoint.id] = stored = evolve(endpoint, version=str(self._seq))
        return stored
