"""What the scheduler's threads tell its one deciding thread."""

from __future__ import annotations

from attrs import frozen

from core.exposure import Standing
from ports.cluster import Answer, ClusterNode, Command, Hello, Reports
from ports.workloads import Changes


@frozen
class NodeUp:
    node: ClusterNode
    hello: Hello
    address: str


@frozen
class NodeDown:
    name: str
    why: str


@frozen
class Listed:
    """The cluster's nodes that are alive, all of them."""

    names: frozenset[str]


@frozen
class Reported:
    name: str
    reports: Reports


@frozen
class Answered:
    name: str
    command: Command
    answer: Answer


@frozen
class Changed:
    changes: Changes


@frozen
class Settled:
    job_id: str


@frozen
class Stands:
    """Another billing round has ended."""

    standing: Standing


@frozen
class Deposed:
    """An agent obeys a newer term."""

    newest: int


Event = NodeUp | NodeDown | Listed | Reported | Answered | Changed | Settled | Stands | Deposed
