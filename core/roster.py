"""The nodes as the scheduler knows them: who answers, what runs there, and what their records say.

A record's status is written on change, and for the running times at most once in a while; its spec belongs to the
operator and is read again and again. The ledger follows: a node that can't be asked offers nothing.
"""

from __future__ import annotations

from attrs import define, evolve, field

from core.fleet import GpuClass, unknown_gpu, unknown_node
from core.ledger import VramLedger
from core.next_step import NodeView
from ports.cluster import ClusterNode, Hello, RunReport
from ports.errors import Conflict
from ports.nodes import Gpu, NodeRecord, NodeRecords, NodeState, NodeStatus, Quarantine
from ports.units import Span
from ports.workloads import Run, RunId, Slot


@define
class Node:
    """record: as it should be stored. silent_since: on the clock that never jumps; None while it answers."""

    record: NodeRecord
    saved: NodeRecord
    answered: bool = False
    silent_since: Span | None = None
    label_owner: str = ""
    problem: str = ""
    reports: dict[RunId, RunReport] = field(factory=dict)
    ran: dict[RunId, Span] = field(factory=dict)
    ran_saved_at: Span = Span(0)


class Roster:
    """Not thread-safe: the scheduler's thread alone works with it."""

    def __init__(self, records: NodeRecords, ledger: VramLedger, ran_every: Span) -> None:
        self._records = records
        self._ledger = ledger
        self._ran_every = ran_every
        self._nodes: dict[str, Node] = {}
        self._fitted: set[str] = set()  # nodes that are in the ledger
        self._classes: tuple[GpuClass, ...] | None = None

    def load(self, now: Span) -> None:
        """Take up all records; until a node answers, its GPUs are known but offer nothing."""
        for record in self._records.list():
            self._nodes[record.name] = Node(record, record, silent_since=now)
            self._fit(self._nodes[record.name])
            for each in record.status.quarantine:
                self._ledger.quarantine(RunId.parse(each.run), [Slot(record.name, each.gpu, each.mib)])

    def up(self, seen: ClusterNode, hello: Hello, address: str, epoch: int) -> Node:
        """Its agent has answered hello in this term: it can be asked, and has swept."""
        node = self._nodes.get(seen.name)
        if node is None:
            blank = NodeRecord(seen.name)
            node = self._nodes[seen.name] = Node(blank, blank)
        node.answered, node.silent_since, node.label_owner, node.problem = True, None, seen.owner, seen.problem
        node.reports = {report.run: report for report in hello.runs}
        node.ran = {report.run: report.ran for report in hello.runs}
        status = evolve(
            node.record.status,
            gpus=hello.gpus,
            agent=address,
            epoch=epoch,
            python=hello.python,
            cloudpickle=hello.cloudpickle,
        )
        node.record = evolve(node.record, status=status)
        self._judge(node)
        return node

    def down(self, name: str, why: str, now: Span) -> None:
        """It can't be asked. What runs there may run on; what waits goes elsewhere. One never heard of is noted too."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node(NodeRecord(name), NodeRecord(name))
        if node.answered:
            node.answered, node.silent_since = False, now
        elif node.silent_since is None:
            node.silent_since = now
        self._judge(node, why)

    def refresh_specs(self) -> set[str]:
        """Read what operators have set; gives the nodes whose spec is another now."""
        changed = set()
        for stored in self._records.list():
            node = self._nodes.get(stored.name)
            if node is None:
                node = self._nodes[stored.name] = Node(stored, stored, silent_since=Span(0))
                changed.add(stored.name)
            elif node.record.spec != stored.spec:
                changed.add(stored.name)
            node.saved = stored
            node.record = evolve(node.record, spec=stored.spec, version=stored.version)
            if stored.name in changed:
                self._judge(node, node.record.status.reason)
        return changed

    def reported(self, name: str, reports: tuple[RunReport, ...], ran: dict[RunId, Span]) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        for report in reports:
            node.reports[report.run] = report
            node.ran[report.run] = max(report.ran, node.ran.get(report.run, Span(0)))
        for run, span in ran.items():
            node.ran[run] = max(span, node.ran.get(run, Span(0)))

    def forget(self, run: RunId) -> None:
        for node in self._nodes.values():
            node.reports.pop(run, None)
            node.ran.pop(run, None)

    def view(self, name: str, run: RunId, now: Span) -> NodeView:
        node = self._nodes.get(name)
        if node is None:
            return NodeView(answered=False, silent=now)
        silent = now - node.silent_since if node.silent_since is not None else Span(0)
        ran = max(node.ran.get(run, Span(0)), node.record.status.ran.get(str(run), Span(0)))
        return NodeView(node.answered, node.record.spec.gone, silent, ran, node.reports.get(run))

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def owner(self, node: str) -> str:
        """Raises NotFound."""
        found = self._nodes.get(node)
        if found is None:
            raise unknown_node(node)
        return found.record.status.owner

    def gpu(self, node: str, index: int) -> Gpu:
        """Raises NotFound."""
        found = self._nodes.get(node)
        for gpu in found.record.status.gpus if found is not None else ():
            if gpu.index == index:
                return gpu
        raise unknown_gpu(node, index)

    def classes(self) -> tuple[GpuClass, ...]:
        """Every kind of GPU there is."""
        if self._classes is None:
            self._classes = tuple(
                {
                    GpuClass(node.record.status.owner, gpu.model, gpu.vendor, gpu.total)
                    for node in self._nodes.values()
                    for gpu in node.record.status.gpus
                }
            )
        return self._classes

    def all(self) -> tuple[Node, ...]:
        return tuple(self._nodes.values())

    def quarantine(self, run: Run) -> None:
        """Note a lost run's slots on the records of its nodes, durably, before its object may say that it ended."""
        for name in {slot.node for slot in run.placement}:
            node = self._nodes.get(name)
            if node is None or node.record.spec.gone:
                continue
            lost = tuple(Quarantine(str(run.id), slot.gpu, slot.mib) for slot in run.placement if slot.node == name)
            kept = tuple(each for each in node.record.status.quarantine if each.run != str(run.id))
            node.record = evolve(node.record, status=evolve(node.record.status, quarantine=kept + lost))
            self.save(node)
        self._ledger.quarantine(run.id)

    def lift(self, node: Node, run_text: str) -> None:
        """That run is gone from that node for certain."""
        kept = tuple(each for each in node.record.status.quarantine if each.run != run_text)
        if len(kept) != len(node.record.status.quarantine):
            node.record = evolve(node.record, status=evolve(node.record.status, quarantine=kept))
            self._ledger.lift(run_text, node.record.name)

    def save_all(self, now: Span) -> None:
        """Write the records that are not as they should be; running times at most once per `ran_every`."""
        for node in self._nodes.values():
            if now - node.ran_saved_at >= self._ran_every:
                ran = {str(run): span for run, span in sorted(node.ran.items()) if run in node.reports and node.reports[run].started}
                if ran != node.record.status.ran:
                    node.record = evolve(node.record, status=evolve(node.record.status, ran=ran))
                node.ran_saved_at = now
            if node.record != node.saved:
                self.save(node)

    def save(self, node: Node) -> None:
        while True:
            try:
                node.saved = self._records.put_status(node.record)
            except Conflict:
                stored = self._records.get(node.record.name)
                node.record = evolve(
                    node.record,
                    version=stored.version if stored is not None else "",
                    spec=stored.spec if stored is not None else node.record.spec,
                )
                continue
            node.record = node.saved
            return

    def _judge(self, node: Node, why: str = "") -> None:
        """State, owner and reason of a node, as they follow from what is known; the ledger follows."""
        spec, status = node.record.spec, node.record.status
        owner = spec.owner or node.label_owner or status.owner
        state, reason = NodeState.READY, ""
        if spec.gone:
            state, reason = NodeState.GONE, "Declared gone by an admin."
        elif not node.answered:
            state, reason = NodeState.UNREACHABLE, why or "Its agent does not answer."
        elif node.problem:
            state, reason = NodeState.UNFIT, node.problem
        elif not status.gpus:
            state, reason = NodeState.UNFIT, "It has no GPU that its agent can see."
        elif not owner:
            state, reason = (
                NodeState.UNFIT,
                "Nobody has said whose it is: set its owner by PUT /v1/admin/nodes, or label it gridweave.io/owner.",
            )
        elif spec.owner and node.label_owner and spec.owner != node.label_owner:
            state, reason = NodeState.UNFIT, f"Its record says that it is {spec.owner}'s, its label {node.label_owner}'s."
        changed: NodeStatus = evolve(status, state=state, reason=reason, owner=owner)
        if spec.gone:
            for each in status.quarantine:
                self._ledger.lift(each.run, node.record.name)
            changed = evolve(changed, quarantine=(), ran={})
        node.record = evolve(node.record, status=changed)
        self._fit(node)

    def _fit(self, node: Node) -> None:
        """Make the ledger's picture of a node that of its record."""
        name, spec, status = node.record.name, node.record.spec, node.record.status
        self._classes = None
        if spec.gone or not status.gpus or not status.owner:
            self._ledger.remove_node(name)
            self._fitted.discard(name)
            return
        drain = spec.drain or status.state is not NodeState.READY
        put = self._ledger.update_node if name in self._fitted else self._ledger.add_node
        put(name, status.owner, status.gpus, drain)
        self._fitted.add(name)
