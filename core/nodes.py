"""What an operator declares of a node: whose it is, drain, gone. Its status is the scheduler's."""

from __future__ import annotations

from attrs import evolve, frozen

from core.house import House
from ports.errors import Conflict
from ports.nodes import NodeRecord


@frozen
class NodeChange:
    """None: as it is. owner: "org", "provider:<user id>", or "" for what the node's label says."""

    name: str
    owner: str | None = None
    drain: bool | None = None
    gone: bool | None = None


def declare(house: House, change: NodeChange) -> NodeRecord:
    """Write the node's spec; a node that is not known yet may be declared before it joins. Raises Unavailable."""
    said = {name: value for name in ("owner", "drain", "gone") if (value := getattr(change, name)) is not None}
    while True:
        record = house.nodes.get(change.name) or NodeRecord(change.name)
        try:
            return house.nodes.put_spec(evolve(record, spec=evolve(record.spec, **said)))
        except Conflict:
            continue  # somebody else wrote in between: change what is there now
