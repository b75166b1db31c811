"""Nodes, their GPUs and the node record: what is known of a machine, and whose it is.

The spec is the operator's (whose it is, drain, declared gone); the status is the scheduler's alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from attrs import field, frozen

from ports.units import Mib, Span

ORG = "org"


@frozen
class Gpu:
    """One GPU of a node. `index`: as the driver counts. `total`: VRAM in MiB. `uuid`: empty if it has none."""

    index: int
    model: str
    vendor: str
    total: Mib
    uuid: str = ""


class NodeState(StrEnum):
    READY = "Ready"  # its agent has answered hello in this epoch and has swept
    UNREACHABLE = "Unreachable"  # it was known, and can't be asked now
    UNFIT = "Unfit"  # its GPUs or its owner can't be told; `reason` says why
    GONE = "Gone"  # declared gone by an admin, or by the API that made it


@frozen
class Quarantine:
    """VRAM that a run may still use on a node that can't be asked. `run` as text."""

    run: str
    gpu: int
    mib: Mib


@frozen
class NodeSpec:
    """owner: "org" or "provider:<user id>"; empty: the node's label says. drain: no new bookings."""

    owner: str = ""
    drain: bool = False
    gone: bool = False


@frozen
class NodeStatus:
    """owner: as it holds now. agent: base URL. ran: of each live run (by its text), for the biller. reason: for people.
    silent: for how long it has been asked in vain since it last answered, so that many short terms give it up as one does."""

    state: NodeState = NodeState.UNREACHABLE
    reason: str = ""
    owner: str = ""
    gpus: tuple[Gpu, ...] = ()
    agent: str = ""
    epoch: int = 0
    python: str = ""
    cloudpickle: str = ""
    quarantine: tuple[Quarantine, ...] = ()
    ran: dict[str, Span] = field(factory=dict)
    silent: Span = Span(0)


@frozen
class NodeRecord:
    """`version` is the store's, "" before the first write. unreadable: why what is stored can't be read, "" if it can; nothing
    else is known of such a node then, and its record is not written."""

    name: str
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
    version: str = ""
    unreadable: str = ""


class NodeRecords(Protocol):
    """Raises Unavailable when the store does not answer. A write of an unreadable record raises Unreadable."""

    def get(self, name: str) -> NodeRecord | None: ...

    def list(self) -> tuple[NodeRecord, ...]:
        """All nodes, by name; one consistent snapshot."""
        ...

    def put_spec(self, record: NodeRecord) -> NodeRecord:
        """Write name and spec; status stays as stored. Raises Conflict if `version` is not the stored one."""
        ...

    def put_status(self, record: NodeRecord) -> NodeRecord:
        """Write name and status; spec stays as stored. Raises Conflict if `version` is not the stored one."""
        ...

    def delete(self, name: str) -> None:
        """Forget a node; no error if there is none."""
        ...
