"""Node records in a dict. For simulations and unit tests."""

from __future__ import annotations

import threading

from ports.errors import Conflict
from ports.nodes import NodeRecord, NodeSpec, NodeStatus


class MemoryNodes:
    """`ports.nodes.NodeRecords`."""

    def __init__(self) -> None:
        self._records: dict[str, NodeRecord] = {}
        self._writes = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> NodeRecord | None:
        return self._records.get(name)

    def list(self) -> tuple[NodeRecord, ...]:
        with self._lock:
            return tuple(self._records[name] for name in sorted(self._records))

    def put_spec(self, record: NodeRecord) -> NodeRecord:
        with self._lock:
            return self._put(record.name, record.spec, self._stored(record).status)

    def put_status(self, record: NodeRecord) -> NodeRecord:
        with self._lock:
            return self._put(record.name, self._stored(record).spec, record.status)

    def delete(self, name: str) -> None:
        with self._lock:
            self._records.pop(name, None)

    def _stored(self, record: NodeRecord) -> NodeRecord:
        stored = self._records.get(record.name, NodeRecord(record.name))
        if stored.version != record.version:
            raise Conflict(record.name)
        return stored

    def _put(self, name: str, spec: NodeSpec, status: NodeStatus) -> NodeRecord:
        self._writes += 1
        self._records[name] = NodeRecord(name, spec, status, str(self._writes))
        return self._records[name]
