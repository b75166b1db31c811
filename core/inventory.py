"""The fleet as one consistent snapshot: every GPU, and how much of it is booked, quarantined and free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache

from attrs import field, frozen

from core.fleet import LedgerView, unknown_gpu, unknown_node
from core.ledger import VramLedger
from core.policies import Policy
from ports.nodes import Gpu, NodeRecord, NodeState
from ports.units import Mib, Span
from ports.workloads import Job, Run, RunId, RunState, Slot


@frozen
class FleetGpu:
    """One GPU. free: what is neither booked nor quarantined."""

    gpu: Gpu
    booked: Mib
    quarantined: Mib

    @property
    def free(self) -> Mib:
        return Mib(max(0, self.gpu.total.n - self.booked.n - self.quarantined.n))


@frozen
class FleetNode:
    record: NodeRecord
    gpus: tuple[FleetGpu, ...]

    @property
    def usable(self) -> bool:
        """Whether new bookings may go here."""
        return self.record.status.state is NodeState.READY and not self.record.spec.drain


@frozen
class Fleet:
    """records: by name. live: jobs that hold slots. policy: what is known of where asks go; None for best fit."""

    nodes: tuple[FleetNode, ...]
    live: tuple[Job, ...] = ()
    _gpus: dict[tuple[str, int], Gpu] = field(factory=dict)
    _owners: dict[str, str] = field(factory=dict)
    _ran: dict[str, Span] = field(factory=dict)
    policy: Policy | None = field(default=None, eq=False, repr=False)
    _texts: dict[Hashable, str] = field(factory=dict, init=False, eq=False, repr=False)

    def gpu(self, node: str, index: int) -> Gpu:
        """Raises NotFound."""
        found = self._gpus.get((node, index))
        if found is None:
            raise unknown_gpu(node, index)
        return found

    def owner(self, node: str) -> str:
        """Raises NotFound."""
        found = self._owners.get(node)
        if found is None:
            raise unknown_node(node)
        return found

    def ran(self, run: Run) -> Span:
        """How long it has run, as a biller would count it now: of a live run what its nodes have last told."""
        return run.ran if run.state is RunState.ENDED else max(run.ran, self._ran.get(str(run.id), Span(0)))

    def remembered(self, about: Hashable, make: Callable[[], str]) -> str:
        """That text, made once per snapshot: many look at the same one."""
        found = self._texts.get(about)
        if found is None:
            found = self._texts[about] = make()
        return found

    def versions(self) -> tuple[str, str]:
        """Python and cloudpickle of the nodes, "" while no node has told them."""
        known = [node.record.status for node in self.nodes if node.record.status.python]
        return (known[0].python, known[0].cloudpickle) if known else ("", "")

    def capacity(self) -> Capacity:
        """What the machines could hold if nothing ran on them; drained and silent ones count."""
        known = ((node.record.name, node.record.status) for node in self.nodes)
        return _capacity(tuple((name, status.owner, status.gpus) for name, status in known if status.gpus and status.owner))

    def ledger(self) -> VramLedger:
        """A ledger of its own in the state of this snapshot. Costs a walk over fleet and live runs."""
        made = VramLedger(None if self.policy is None else self.policy.twin())
        for node in self.nodes:
            status = node.record.status
            if status.gpus and status.owner:
                made.add_node(node.record.name, status.owner, status.gpus, drain=not node.usable)
        for job in self.live:
            for run in job.status.runs:
                if run.state is not RunState.ENDED:
                    made.adopt(run.id, run.placement)
        for node in self.nodes:
            for each in node.record.status.quarantine:
                made.quarantine(RunId.parse(each.run), [Slot(node.record.name, each.gpu, each.mib)])
        return made


@frozen
class Capacity:
    """ledger: with no booking in it; only to be asked. view: of it."""

    ledger: VramLedger
    view: LedgerView


@lru_cache(maxsize=8)
def _capacity(hardware: tuple[tuple[str, str, tuple[Gpu, ...]], ...]) -> Capacity:
    """The same machines give the same answer, and they rarely change."""
    made = VramLedger()
    for name, owner, gpus in hardware:
        made.add_node(name, owner, gpus)
    return Capacity(made, made.view())


def fold(records: Iterable[NodeRecord], live: Iterable[Job], policy: Policy | None = None) -> Fleet:
    """The snapshot of these records and of the slots that these jobs hold. policy: not to change any more."""
    booked: dict[tuple[str, int], int] = defaultdict(int)
    holding, booked_runs = [], set()
    for job in live:
        for run in job.status.runs:
            if run.state is not RunState.ENDED:
                holding.append(job)
                booked_runs.add(str(run.id))
                for slot in run.placement:
                    booked[slot.node, slot.gpu] += slot.mib.n
    nodes, gpus = [], {}
    for record in sorted(records, key=lambda each: each.name):
        quarantined: dict[int, int] = defaultdict(int)
        for each in record.status.quarantine:
            if each.run not in booked_runs:  # else its object has not been written yet, or it is back: it counts once
                quarantined[each.gpu] += each.mib.n
        for gpu in record.status.gpus:
            gpus[record.name, gpu.index] = gpu
        nodes.append(
            FleetNode(
                record,
                tuple(
                    FleetGpu(gpu, Mib(booked[record.name, gpu.index]), Mib(quarantined[gpu.index]))
                    for gpu in sorted(record.status.gpus, key=lambda each: each.index)
                ),
            )
        )
    owners = {node.record.name: node.record.status.owner for node in nodes}
    return Fleet(tuple(nodes), tuple(holding), gpus, owners, running_times(node.record for node in nodes), policy)


def running_times(records: Iterable[NodeRecord]) -> dict[str, Span]:
    """How long each live run has run, by its text; of a gang's agents, the greatest counts."""
    ran: dict[str, Span] = {}
    for record in records:
        for run, span in record.status.ran.items():
            ran[run] = max(span, ran.get(run, Span(0)))
    return ran
