"""Node records in a dict. For simulations and unit tests."""

from __future__ import annotations

import threading

from ports.errors import Conflict, Unreadable
from ports.nodes import NodeRecord, NodeSpec, NodeState, NodeStatus


class MemoryNodes:
    """`ports.nodes.NodeRecords`."""

    def __init__(self) -> None:
        self._records: dict[str, NodeRecord] = {}
        self._spoiled: set[str] = set()
        self._writes = 0
        self._lock = threading.Lock()

    def get(self, name: str) -> NodeRecord | None:
        return self._read(name) if name in self._records else None

    def list(self) -> tuple[NodeRecord, ...]:
        with self._lock:
            return tuple(self._read(name) for name in sorted(self._records))

    def spoil(self, name: str, mend: bool = False) -> None:
        """Somebody writes by hand what nobody here can read, or mends it."""
        with self._lock:
            self._put(name, self._records[name].spec, self._records[name].status)
            self._spoiled.discard(name) if mend else self._spoiled.add(name)

    def _read(self, name: str) -> NodeRecord:
        stored = self._records[name]
        if name not in self._spoiled:
            return stored
        why = "Its record can't be read."
        return NodeRecord(name, NodeSpec(drain=True), NodeStatus(NodeState.UNFIT, why), stored.version, why)

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
        if record.unreadable:
            raise Unreadable(f"the record of {record.name}", record.unreadable)
        stored = self._records.get(record.name, NodeRecord(record.name))
        if stored.version != record.version:
            raise Conflict(record.name)
        return stored

    def _put(self, name: str, spec: NodeSpec, status: NodeStatus) -> NodeRecord:
        self._writes += 1
        self._records[name] = NodeRecord(name, spec, status, str(self._writes))
        return self._records[name]
