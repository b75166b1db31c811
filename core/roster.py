"""The nodes as the scheduler knows them: who answers, what runs there, and what their records say.

A record's status is written on change, and for the running times at most once in a while; its spec belongs to the
operator and is read again and again. The ledger follows: a node that can't be asked offers nothing.

A record's epoch says whose term wrote it last. A term that finds a newer one there has been deposed and writes no more;
one that finds what a predecessor wrote late takes over what only that one knew: quarantine and running times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from attrs import define, evolve, field

from core.fleet import GpuClass, unknown_gpu, unknown_node
from core.ledger import VramLedger
from core.next_step import NodeView
from ports.cluster import ClusterNode, Hello, ReportState, RunReport
from ports.errors import Conflict, Refused, StaleEpoch
from ports.nodes import Gpu, NodeRecord, NodeRecords, NodeState, NodeStatus, Quarantine
from ports.units import Span
from ports.workloads import RunId, Slot

NAP = Span.of(seconds=5)  # of silence, the most that one round may add: a scheduler that slept itself has proved nothing
GRACE = Span.of(seconds=10)  # for a node to say hello to a new term, until its record says that it does not answer
STEP = Span.of(seconds=5)  # of silence, until the record says so
_ORDER = {ReportState.PREPARING: 0, ReportState.READY: 1, ReportState.RUNNING: 2, ReportState.GONE: 3}


@define
class Node:
    """record: as it should be stored. saved: as it is stored, to our knowledge. silent: for how long this term has not heard
    it. vain: it was asked, and there was no answer. asked: for how long so. before: for how long so by earlier terms."""

    record: NodeRecord
    saved: NodeRecord
    answered: bool = False
    silent: Span = Span(0)
    vain: bool = False
    asked: Span = Span(0)
    before: Span = Span(0)
    counting: bool = False  # its silence had begun by the last round
    label_owner: str = ""
    problem: str = ""
    reports: dict[RunId, RunReport] = field(factory=dict)
    ran: dict[RunId, Span] = field(factory=dict)
    ran_saved_at: Span = Span(0)

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def silence(self) -> Span:
        """For how long it was asked in vain: a term that can't ask anybody (its engine is away, say) proves nothing about a
        node. What earlier terms have seen counts once this one sees it too."""
        return self.asked + self.before if self.asked > GRACE else self.asked


class Roster:
    """Not thread-safe: the scheduler's thread alone works with it.

    lost_after: a node silent for so long is not counted on any more. capacity: of the nodes that are counted on, as if
    nothing ran there.
    """

    def __init__(self, records: NodeRecords, ledger: VramLedger, epoch: int, ran_every: Span, lost_after: Span) -> None:
        self._records = records
        self._ledger = ledger
        self._epoch = epoch
        self._ran_every, self._lost_after = ran_every, lost_after
        self._nodes: dict[str, Node] = {}
        self._now: Span | None = None
        self._classes: tuple[GpuClass, ...] | None = None
        self.capacity = VramLedger()

    def load(self) -> None:
        """Take up all records; until a node answers, its GPUs are known but offer nothing. Raises StaleEpoch."""
        for record in self._records.list():
            self._fit(self._take_up(record))

    def expect(self, name: str) -> Node:
        """That node, known or not: something is placed there."""
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = Node(NodeRecord(name), NodeRecord(name))
        return node

    def up(self, seen: ClusterNode, hello: Hello, address: str) -> Node:
        """Its agent has answered hello in this term: it can be asked, and has swept."""
        node = self.expect(seen.name)
        node.answered, node.silent, node.vain, node.asked, node.before, node.counting = True, Span(0), False, Span(0), Span(0), False
        node.label_owner, node.problem = seen.owner, seen.problem
        node.reports = {report.run: report for report in hello.runs}
        for report in hello.runs:
            node.ran[report.run] = max(report.ran, node.ran.get(report.run, Span(0)))
        status = evolve(
            node.record.status,
            gpus=hello.gpus,
            agent=address,
            epoch=self._epoch,  # written at once: a predecessor that wakes up finds it there
            python=hello.python,
            cloudpickle=hello.cloudpickle,
            silent=Span(0),
        )
        node.record = evolve(node.record, status=status)
        self._judge(node)
        return node

    def down(self, name: str, why: str) -> None:
        """It can't be asked. What runs there may run on; what waits goes elsewhere. One never heard of is noted too."""
        node = self.expect(name)
        node.answered = False
        _asked_in_vain(node)
        self._judge(node, why)

    def listed(self, names: Collection[str]) -> None:
        """The cluster knows these nodes, and no others: of those nobody can ask anything."""
        for node in self._nodes.values():
            if not node.answered and node.name not in names:
                _asked_in_vain(node)

    def pass_time(self, now: Span) -> list[str]:
        """Count how long the silent ones have been silent; gives those that are lost, or count again, from now on."""
        nap = Span(0) if self._now is None else min(now - self._now, NAP)
        self._now = now
        moved = []
        for node in self._nodes.values():
            if node.answered:
                continue
            own, before = node.silent, node.silence
            if node.counting:
                node.silent += nap
                node.asked += nap if node.vain else Span(0)
            node.counting = True
            if own <= GRACE < node.silent and node.record.status.state is NodeState.READY:
                self._judge(node)
            if before <= self._lost_after < node.silence:
                self._fit(node)
                moved.append(node.name)
        return moved

    def refresh_specs(self) -> set[str]:
        """Read what operators have set; gives the nodes whose spec is another now. Raises StaleEpoch."""
        changed = set()
        for stored in self._records.list():
            node = self._nodes.get(stored.name)
            if node is None:
                node = self._take_up(stored)
                changed.add(stored.name)
            elif node.saved.version != stored.version:
                if node.record.spec != stored.spec or node.record.unreadable != stored.unreadable:
                    changed.add(stored.name)
                self._meet(node, stored)
            if stored.name in changed:
                self._judge(node, node.record.status.reason)
        return changed

    def reported(self, name: str, reports: tuple[RunReport, ...], ran: dict[RunId, Span]) -> None:
        """A run only moves forward: an older report that comes later says nothing."""
        node = self._nodes.get(name)
        if node is None:
            return
        for report in reports:
            known = node.reports.get(report.run)
            if known is None or (_ORDER[report.state], report.stored) >= (_ORDER[known.state], known.stored):
                node.reports[report.run] = report
            node.ran[report.run] = max(report.ran, node.ran.get(report.run, Span(0)))
        for run, span in ran.items():
            node.ran[run] = max(span, node.ran.get(run, Span(0)))

    def forget(self, name: str, run: RunId) -> None:
        """That run has ended, and nothing of it is there any more."""
        node = self._nodes.get(name)
        if node is not None:
            node.reports.pop(run, None)
            node.ran.pop(run, None)

    def begin(self, run: RunId, names: Iterable[str]) -> None:
        """A run is about to be booked on these nodes: what an ended one of the same name ran there is not its own. Durable when
        it returns. Raises StaleEpoch, Unavailable."""
        for name in dict.fromkeys(names):
            node = self._nodes.get(name)
            if node is None:
                continue
            node.ran.pop(run, None)
            if str(run) in node.record.status.ran:
                ran = {text: span for text, span in node.record.status.ran.items() if text != str(run)}
                node.record = evolve(node.record, status=evolve(node.record.status, ran=ran))
                self.save(node)
                node.ran.pop(run, None)  # a conflict has brought it back

    def view(self, name: str, run: RunId) -> NodeView:
        node = self._nodes.get(name)
        if node is None:
            return NodeView(answered=False)
        ran = max(node.ran.get(run, Span(0)), node.record.status.ran.get(str(run), Span(0)))
        return NodeView(node.answered, node.record.spec.gone, node.silence, ran, node.reports.get(run))

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

    def quarantine(self, run: RunId, slots: Iterable[Slot]) -> list[Node]:
        """Keep slots from everybody until the run is gone for certain; gives the nodes whose records say so now, to be saved."""
        noted, kept = [], tuple(slots)
        for name in dict.fromkeys(slot.node for slot in kept):
            node = self.expect(name)
            mine = tuple(Quarantine(str(run), slot.gpu, slot.mib) for slot in kept if slot.node == name)
            others = tuple(each for each in node.record.status.quarantine if each.run != str(run))
            if set(mine) | set(others) != set(node.record.status.quarantine):
                node.record = evolve(node.record, status=evolve(node.record.status, quarantine=others + mine))
            noted.append(node)
        self._ledger.quarantine(run, kept)
        return noted

    def lift(self, name: str, run: RunId) -> bool:
        """That run is gone from that node for certain, or booked again. False if nothing of it was kept."""
        node = self._nodes.get(name)
        kept = tuple(each for each in node.record.status.quarantine if each.run != str(run)) if node is not None else ()
        if node is None or len(kept) == len(node.record.status.quarantine):
            return False
        node.record = evolve(node.record, status=evolve(node.record.status, quarantine=kept))
        self._ledger.lift(run, name)
        return True

    def quarantined(self, name: str) -> tuple[RunId, ...]:
        node = self._nodes.get(name)
        return tuple(dict.fromkeys(RunId.parse(each.run) for each in node.record.status.quarantine)) if node is not None else ()

    def untold(self, name: str) -> tuple[RunId, ...]:
        """Runs that were noted there, and of which the node does not tell any more, or has not told in this term: they may be gone."""
        node = self._nodes.get(name)
        return tuple(run for run in node.ran if run not in node.reports) if node is not None else ()

    def save_all(self, now: Span) -> None:
        """Write the records that are not as they should be; running times at most once per `ran_every`, a silence as it grows."""
        for node in self._nodes.values():
            if now - node.ran_saved_at >= self._ran_every:
                ran = {str(run): span for run, span in sorted(node.ran.items()) if span > Span(0)}
                if ran != node.record.status.ran:
                    node.record = evolve(node.record, status=evolve(node.record.status, ran=ran))
                node.ran_saved_at = now
            told = node.record.status.silent
            if not node.answered and told <= self._lost_after and node.silence - told >= STEP:
                node.record = evolve(node.record, status=evolve(node.record.status, silent=node.silence))
            if node.record != node.saved:
                self.save(node)

    def save(self, node: Node) -> None:
        """Raises StaleEpoch if a newer term has written there, Unavailable. What can't be read is not written over."""
        while not node.record.unreadable:
            node.record = evolve(node.record, status=evolve(node.record.status, epoch=self._epoch))
            try:
                node.saved = self._records.put_status(node.record)
            except Conflict:
                self._meet(node, self._records.get(node.name) or NodeRecord(node.name))
                continue
            node.record = node.saved
            return

    def _take_up(self, stored: NodeRecord) -> Node:
        """The record of a node that this term has not heard of: all that it says is kept."""
        self._own(stored)
        node = self._nodes[stored.name] = Node(stored, stored, before=stored.status.silent)
        self._remember_ran(node, stored)
        for each in stored.status.quarantine:
            self._ledger.quarantine(RunId.parse(each.run), [Slot(stored.name, each.gpu, each.mib)])
        return node

    def _own(self, stored: NodeRecord) -> None:
        """Raises StaleEpoch if a newer term has written it: this one writes no more."""
        if stored.status.epoch > self._epoch:
            raise StaleEpoch(f"The record of {stored.name} was written by a newer term.", newest=stored.status.epoch)

    def _meet(self, node: Node, stored: NodeRecord) -> None:
        """Somebody else has written the record: an operator its spec, or another term its status."""
        self._own(stored)
        known = {each.run for each in (*node.saved.status.quarantine, *node.record.status.quarantine)}
        late = tuple(each for each in stored.status.quarantine if each.run not in known)
        for each in late:
            self._ledger.quarantine(RunId.parse(each.run), [Slot(node.name, each.gpu, each.mib)])
        self._remember_ran(node, stored)
        status = evolve(node.record.status, quarantine=node.record.status.quarantine + late)
        changed = node.record.spec != stored.spec or node.record.unreadable != stored.unreadable
        node.record = evolve(node.record, version=stored.version, spec=stored.spec, status=status, unreadable=stored.unreadable)
        node.saved = stored
        if changed:
            self._judge(node, node.record.status.reason)

    def _remember_ran(self, node: Node, stored: NodeRecord) -> None:
        """What this term has written itself it knows better: a run that is forgotten since does not come back by an operator's write."""
        if stored.status.epoch == self._epoch:
            return
        for text, span in stored.status.ran.items():
            run = RunId.parse(text)
            node.ran[run] = max(span, node.ran.get(run, Span(0)))

    def _judge(self, node: Node, why: str = "") -> None:
        """State, owner and reason of a node, as they follow from what is known; the ledger follows."""
        spec, status = node.record.spec, node.record.status
        owner = spec.owner or node.label_owner or status.owner
        state, reason = _state(node, owner, why)
        changed: NodeStatus = evolve(status, state=state, reason=reason, owner=owner)
        if spec.gone:
            for each in status.quarantine:
                self._ledger.lift(each.run, node.name)
            changed = evolve(changed, quarantine=())
        node.record = evolve(node.record, status=changed)
        try:
            self._fit(node)
        except Refused as error:  # what it says of itself can't be: it gets no work, and the others go on
            node.record = evolve(node.record, status=evolve(changed, state=NodeState.UNFIT, reason=str(error)))
            self._ledger.remove_node(node.name)
            self.capacity.remove_node(node.name)

    def _fit(self, node: Node) -> None:
        """Make the ledger's picture of a node that of its record."""
        spec, status = node.record.spec, node.record.status
        self._classes = None
        known = bool(status.gpus and status.owner and not spec.gone)
        offers = node.answered and status.state is NodeState.READY and not spec.drain
        counted = status.state in (NodeState.READY, NodeState.UNREACHABLE) and node.silence <= self._lost_after and not spec.drain
        _put(self._ledger, node, known, not offers)
        _put(self.capacity, node, known and counted, False)


def _asked_in_vain(node: Node) -> None:
    if not node.vain:
        node.vain, node.counting = True, False  # its silence begins now


def _put(ledger: VramLedger, node: Node, present: bool, drain: bool) -> None:
    name, status = node.name, node.record.status
    if not present:
        ledger.remove_node(name)
    elif name in ledger:
        ledger.update_node(name, status.owner, status.gpus, drain)
    else:
        ledger.add_node(name, status.owner, status.gpus, drain)


def _state(node: Node, owner: str, why: str) -> tuple[NodeState, str]:
    spec = node.record.spec
    if spec.gone:
        return NodeState.GONE, "Declared gone by an admin."
    if not node.answered:
        return NodeState.UNREACHABLE, why or "Its agent does not answer."
    if node.record.unreadable or node.problem:
        return NodeState.UNFIT, node.record.unreadable or node.problem
    if not node.record.status.gpus:
        return NodeState.UNFIT, "It has no GPU that its agent can see."
    if not owner:
        return NodeState.UNFIT, "Nobody has said whose it is: set its owner by PUT /v1/admin/nodes, or label it gridweave.io/owner."
    if spec.owner and node.label_owner and spec.owner != node.label_owner:
        return NodeState.UNFIT, f"Its record says that it is {spec.owner}'s, its label {node.label_owner}'s."
    return NodeState.READY, ""
