"""The cluster as the scheduler sees it: machines that carry agents, and one agent per node.

An agent does what it is told once, says what is so, and alone may say that a run is gone. Its reports are
states, not events: whoever missed some reads the newest and has missed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from attrs import field, frozen

from ports.blobs import Grant
from ports.nodes import Gpu
from ports.units import Mib, Span
from ports.workloads import Environment, Exit, RunId, Slot

STARTING = "it is still being started"  # detail of an Unavailable that needs nothing but patience


@frozen
class ClusterNode:
    """A machine that the engine knows. name: from its label `gridweave.io/node`, else its host name.

    gpus: what its labels say, for a fleet without real ones; None: its agent must probe. owner: what its label
    says, "" if nothing. problem: why its labels can't be believed, for people; such a node gets no work.
    """

    name: str
    alive: bool
    owner: str = ""
    gpus: tuple[Gpu, ...] | None = None
    labels: dict[str, str] = field(factory=dict)
    problem: str = ""


class ReportState(StrEnum):
    PREPARING = "preparing"  # inputs are fetched, the environment is built
    READY = "ready"  # a process is warm and waits for `go`
    RUNNING = "running"
    GONE = "gone"  # every process of the run is gone


@frozen
class StoredResult:
    """The result blob as the agent has uploaded it."""

    key: str
    size: int
    sha256: str
    raised: bool


@frozen
class RunReport:
    """What an agent knows of a run now.

    ran: from `go` until now or gone. started: whether `go` was obeyed. detail: of setting up, for
    people. stored: result and all logs are uploaded, or there is nothing to upload. stored_error: why not yet.
    fetch_error: why an input can't be fetched, "" while none is known. uid: of the workload that it was prepared for, "" from an
    agent that does not tell.
    """

    run: RunId
    state: ReportState
    ran: Span = Span(0)
    started: bool = False
    detail: str = ""
    exit: Exit | None = None
    result: StoredResult | None = None
    stored: bool = False
    stored_error: str = ""
    slots: tuple[Slot, ...] = ()
    epoch: int = 0
    uid: str = ""
    fetch_error: str = ""


@frozen
class Hello:
    """An agent's answer to hello: itself, its GPUs and every run that it knows. python: "3.11.7"."""

    node: str
    incarnation: str
    epoch: int
    python: str
    cloudpickle: str
    gpus: tuple[Gpu, ...]
    runs: tuple[RunReport, ...]


@frozen
class Reports:
    """Reports that changed after `cursor`, and the cursor to ask on from. ran: of every live run; uids: of their workloads, as
    far as they are told."""

    reports: tuple[RunReport, ...]
    cursor: str
    ran: dict[RunId, Span] = field(factory=dict)
    uids: dict[RunId, str] = field(factory=dict)


@frozen
class Input:
    """An input to fetch, and what it must be: an agent refuses other bytes."""

    sha256: str
    size: int
    grant: Grant


@frozen
class Prepare:
    """Set up a run up to the point where it only waits for `go`.

    name: for logs. slots: those of this node. totals: of each slot's GPU, in order (for memory fractions).
    inputs: "function", "args" and maybe "code", "working_dir". output: grant to write the run's prefix. uid: of its
    workload: what was made anew under an ended one's name is another.
    """

    run: RunId
    user: str
    name: str
    slots: tuple[Slot, ...]
    totals: tuple[Mib, ...]
    env: Environment
    inputs: dict[str, Input]
    output: Grant
    setup_bound: Span
    uid: str = ""


@frozen
class Go:
    """Start the user's code. Obeyed once, whatever comes twice. max_runtime: the agent ends it after that."""

    run: RunId
    max_runtime: Span | None = None


@frozen
class Kill:
    """End every process of the run. grace: between SIGTERM and SIGKILL."""

    run: RunId
    grace: Span = Span(3000)


@frozen
class Renew:
    """Fresh grants in place of ones that may have expired, or whose server is gone.

    inputs: of the same objects as in Prepare; none once they need not be fetched any more.
    """

    run: RunId
    output: Grant
    inputs: dict[str, Input] = field(factory=dict)


@frozen
class Forget:
    """The run is closed: its traces on the node may go."""

    run: RunId


Command = Prepare | Go | Kill | Renew | Forget


@frozen
class Answer:
    """To one command. known: the agent knows the run. error: why it refused, "" if it did not."""

    ok: bool
    error: str = ""
    known: bool = True


class Agent(Protocol):
    """One node's agent. Every method raises Unavailable if it can't be asked, StaleEpoch if it obeys a newer term."""

    def hello(self, epoch: int) -> Hello:
        """Introduce the scheduler of that term; from then on commands of older epochs are refused."""
        ...

    def command(self, epoch: int, commands: Sequence[Command]) -> tuple[Answer, ...]:
        """Each command is idempotent and answered on its own. Nothing here waits for a run."""
        ...

    def reports(self, cursor: str, wait: Span) -> Reports:
        """What changed since `cursor` ("" is: everything); waits up to `wait` for the first change."""
        ...


class Cluster(Protocol):
    """The engine that carries agents to nodes. Raises Unavailable when it does not answer."""

    def nodes(self) -> tuple[ClusterNode, ...]: ...

    def agent(self, node: ClusterNode) -> Agent:
        """That node's agent, started if there is none. May take seconds."""
        ...

    def address(self, node: str) -> str:
        """Base URL of that node's agent, "" if it is not known."""
        ...
