"""The VRAM ledger: which run has booked which MiB of which GPU, and where the next one goes.

It chooses exactly what `core.packing` specifies, without looking at the whole fleet: see `core.indexes`, `core.buckets` (one
GPU) and `core.rooms` (several GPUs of one node). It is derived, never stored: after a takeover it is told the nodes and adopts
the placements that the objects hold.

Per GPU `free = max(0, total - booked - quarantined)`, and no booking is made that does not fit into `free`. What is
booked stays booked until it is released, also when its GPU shrinks below it, or leaves with its node: then it counts
again when they come back. A quarantine is a fact that is recorded even if it does not fit.
A node that can't be asked now is one that drains: it keeps its bookings and gets no new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.census import Census
from core.fleet import LedgerView, NodeView, unknown_gpu, unknown_node
from core.indexes import Indexes
from core.ledger_state import GpuState, NodeState
from core.owners import Pool, check_owner
from core.packing import NoRoom, check_ask, no_room
from core.policies import Policy
from ports.errors import Invalid
from ports.nodes import Gpu
from ports.units import Mib
from ports.workloads import Ask, Placement, RunId, Slot

__all__ = ["NoRoom", "VramLedger"]

_WAITING = 16_384  # runs without room that a policy is not told of again


class VramLedger:
    """Single-threaded: its owner calls it from one thread at a time. policy: None for best fit; it is this ledger's own, and decides once
    it has learned enough."""

    def __init__(self, policy: Policy | None = None) -> None:
        self._policy = policy
        self._refused: dict[RunId, None] = {}  # runs that the policy has heard of, and that may ask again
        self._resized = True  # the policy has to be told of another fleet
        self._nodes: dict[str, NodeState] = {}
        self._bookings: dict[RunId, Placement] = {}
        self._quarantine: dict[str, dict[tuple[str, int], int]] = {}
        self._census = Census()
        self._indexes = Indexes(self._census)
        self._learned = False
        self._views: dict[str, NodeView] = {}
        self._unseen: list[NodeState] = []  # nodes that have changed since the last view

    # ------------------------------------------------------------ nodes

    def names(self) -> tuple[str, ...]:
        """Of the nodes that are there, drained ones too."""
        return tuple(name for name, node in self._nodes.items() if node.present)

    def __contains__(self, name: object) -> bool:
        """Whether a node of that name is there, drained or not."""
        return (node := self._nodes.get(str(name))) is not None and node.present

    def add_node(self, name: str, owner: str, gpus: Sequence[Gpu], drain: bool = False) -> None:
        """A node joins, or comes back: what was booked on it and is not released counts again. Raises Invalid."""
        if not name or type(name) is not str:
            raise Invalid(f"A node's name must not be empty, not {name!r:.80}.", "node", "Give the node's name.", name)
        node = self._nodes.get(name)
        if node is not None and node.present:
            raise Invalid(f"Node {name!r:.80} is in the ledger already.", "node", "Update it instead.", name)
        check_owner(owner)
        _check_gpus(name, gpus)
        if node is None:
            node = self._nodes[name] = NodeState(name)
        self._set(node, owner, gpus, drain)

    def update_node(self, name: str, owner: str | None = None, gpus: Sequence[Gpu] | None = None, drain: bool | None = None) -> None:
        """Change what is given of a node: it grows, shrinks, drains, changes hands. Raises NotFound or Invalid."""
        node = self._node(name)
        if owner is not None:
            check_owner(owner)
        if gpus is not None:
            _check_gpus(name, gpus)
        have = [each.spec for each in node.gpus.values() if each.spec is not None]
        self._leave(node)
        self._set(node, node.owner if owner is None else owner, have if gpus is None else gpus, node.drain if drain is None else drain)

    def remove_node(self, name: str) -> None:
        """A node is gone; no error if there is none. Bookings and quarantine on it stay until they are given back."""
        node = self._nodes.get(name)
        if node is not None and node.present:
            self._leave(node)
            node.present = False
            self._regpu(node, ())
            self._changed(node)
            self._forget(node)

    def owner(self, node: str) -> str:
        """Whose that node is. Raises NotFound."""
        return self._node(node).owner

    def gpu(self, node: str, index: int) -> Gpu:
        """Raises NotFound."""
        found = self._node(node).gpus.get(index)
        if found is None or found.spec is None:
            raise unknown_gpu(node, index)
        return found.spec

    # ------------------------------------------------------------ bookings

    def reserve(self, run: RunId, ask: Ask, pools: Sequence[Pool]) -> Placement | NoRoom:
        """Book the placement that `core.packing.best_fit` (or the policy) would choose. A run that has one already gets the same again.

        Raises Invalid for an id or ask that is none, and for a run whose slots are in quarantine.
        """
        _check_run(run)
        held = self._bookings.get(run)
        if held is not None:
            return held
        check_ask(ask)
        if self._quarantine and str(run) in self._quarantine:
            raise Invalid(f"Run {run} is in quarantine.", "run", "A new attempt has an id of its own.", run)
        policy = self._policy
        if self._resized and policy is not None:
            self._resized = False
            policy.fleet(self._census.sizes())
            self._follow(policy)
        self._indexes.keep_up()
        found: Placement | int
        one, closest = ask.gpus == 1 == ask.workers, 0
        for pool in pools:
            if one:
                gpu = self._indexes.one(ask, pool)
                found = gpu if isinstance(gpu, int) else (self._book(gpu, ask),)
            else:
                found = self._gang(ask, pool)
            if not isinstance(found, int):
                self._bookings[run] = found
                if policy is not None:
                    self._tell(policy, run, ask, found)
                return found
            closest = max(closest, found)
        if policy is not None:
            self._tell(policy, run, ask)
        return no_room(ask, pools, closest)

    def adopt(self, run: RunId, placement: Placement) -> bool:
        """Book exactly those slots, on drained nodes too. False, and nothing is booked, if they are not all free,
        or if the run holds others. Raises Invalid for an id that is none."""
        _check_run(run)
        held = self._bookings.get(run)
        if held is not None:
            return held == placement or _sorted(held) == _sorted(placement)
        if self._quarantine and str(run) in self._quarantine:
            return False
        gpus = []
        for slot in placement:
            node = self._nodes.get(slot.node)
            gpu = None if node is None else node.gpus.get(slot.gpu)
            if gpu is None or not 0 < slot.mib.n <= gpu.free:
                return False
            gpus.append(gpu)
        if not gpus or len(set(gpus)) < len(gpus):
            return False
        for gpu, slot in zip(gpus, placement, strict=True):
            self._use(gpu, slot.mib.n)
        self._bookings[run] = placement
        if self._policy is not None:
            self._policy.booked(sum(slot.mib.n for slot in placement))
        return True

    def release(self, run: RunId) -> None:
        """Give back what the run has booked. Doing it twice is doing it once."""
        given = self._bookings.pop(run, ())
        for slot in given:
            self._use(self._nodes[slot.node].gpus[slot.gpu], -slot.mib.n)
        if self._policy is not None:
            self._policy.freed(sum(slot.mib.n for slot in given))
        self._indexes.catch_up()

    def placement(self, run: RunId) -> Placement | None:
        """The slots that the run has booked now."""
        return self._bookings.get(run)

    def runs(self) -> tuple[RunId, ...]:
        """Every run that has something booked."""
        return tuple(self._bookings)

    # ------------------------------------------------------------ quarantine

    def quarantine(self, run: RunId, slots: Iterable[Slot] | None = None) -> None:
        """Keep slots from everybody until they are lifted. slots: None for all that the run has booked.

        What the run has booked of them is booked no more; the rest of its booking stays. Slots that it has not booked
        (known from a node record) are kept as well, even if they do not fit. Doing it twice is doing it once.
        """
        _check_run(run)
        booked = self._bookings.get(run, ())
        wanted = {(slot.node, slot.gpu): slot for slot in (booked if slots is None else slots)}
        kept = self._quarantine.get(str(run), {})
        for (name, index), slot in wanted.items():
            node = self._nodes.get(name) or self._nodes.setdefault(name, NodeState(name))
            gpu = node.gpus.get(index)
            if gpu is None:
                gpu = node.gpus[index] = GpuState(node, index, None)
            held = next((each for each in booked if (each.node, each.gpu) == (name, index)), None)
            add = 0 if (name, index) in kept else slot.mib.n
            self._use(gpu, 0 if held is None else -held.mib.n, add)
            kept.setdefault((name, index), slot.mib.n)
        if kept:
            self._quarantine[str(run)] = kept
        rest = tuple(slot for slot in booked if (slot.node, slot.gpu) not in wanted)
        if self._policy is not None:
            self._policy.freed(sum(slot.mib.n for slot in booked) - sum(slot.mib.n for slot in rest))
        if rest:
            self._bookings[run] = rest
        else:
            self._bookings.pop(run, None)
        self._indexes.catch_up()

    def lift(self, run: RunId | str, node: str | None = None) -> None:
        """End the quarantine of that run's slots, on one node or everywhere. Doing it twice is doing it once."""
        kept = self._quarantine.get(str(run), {})
        for name, index in [at for at in kept if node in (None, at[0])]:
            self._use(self._nodes[name].gpus[index], 0, -kept.pop((name, index)))
        if not kept:
            self._quarantine.pop(str(run), None)
        self._indexes.catch_up()

    def quarantined(self) -> dict[str, Placement]:
        """The slots in quarantine, by the text of their run."""
        return {
            run: tuple(Slot(node, gpu, Mib(mib)) for (node, gpu), mib in sorted(kept.items())) for run, kept in self._quarantine.items()
        }

    # ------------------------------------------------------------ questions

    def view(self) -> LedgerView:
        """A snapshot that later changes do not touch.

        Costs a copy of a dict of nodes, and the making of a view of each node that has changed since the last one.
        """
        for node in self._unseen:
            node.seen = True
            if node.present:
                self._views[node.name] = node.view()
            else:
                self._views.pop(node.name, None)
        self._unseen.clear()
        return LedgerView(dict(self._views), self._census.classes())

    def largest(self, ask: Ask, pools: Sequence[Pool]) -> Mib:
        """The most MiB per GPU that an ask of that shape could get if all were free, also on drained nodes; 0: none."""
        check_ask(ask)
        return Mib(max((self._census.capacity(ask, pool) for pool in pools), default=0))

    # ------------------------------------------------------------ inside: choosing

    def _gang(self, ask: Ask, pool: Pool) -> Placement | int:
        """Book all workers in one pool; or, with nothing booked, the MiB per GPU that came closest."""
        placed: list[GpuState] = []
        slots: list[Slot] = []
        for _ in range(ask.workers):
            chosen = self._indexes.worker(ask, pool)
            if isinstance(chosen, int):
                for gpu, slot in zip(placed, slots, strict=True):
                    self._use(gpu, -slot.mib.n)
                return chosen
            slots += [self._book(gpu, ask, closed=True) for gpu in chosen]  # a gang's workers share no GPU
            placed += chosen
        for gpu in placed:
            gpu.open()
            self._indexes.outdate(gpu, 1)
        return tuple(slots)

    def _tell(self, policy: Policy, run: RunId, ask: Ask, placed: Placement = ()) -> None:
        """What the policy learns from: every run once, however often it asks, and what is booked."""
        if run not in self._refused:
            policy.heard(ask)
            self._follow(policy)
        if placed:
            self._refused.pop(run, None)
            policy.booked(sum(slot.mib.n for slot in placed))
        else:
            self._refused[run] = None
            if len(self._refused) > _WAITING:
                del self._refused[next(iter(self._refused))]

    def _follow(self, policy: Policy) -> None:
        """Let it decide, once it can."""
        if not self._learned and policy.ready:
            self._learned = True
            self._indexes.follow(policy)

    # ------------------------------------------------------------ inside: booking

    def _book(self, gpu: GpuState, ask: Ask, closed: bool = False) -> Slot:
        mib = gpu.spec.total if ask.exclusive and gpu.spec is not None else ask.mib
        self._use(gpu, mib.n, closed=closed)
        return Slot(gpu.node.name, gpu.index, mib)

    def _use(self, gpu: GpuState, booked: int, quarantined: int = 0, closed: bool = False) -> None:
        """The one place where an amount changes. closed: the GPU offers nothing until it is opened."""
        node = gpu.node
        gpu.booked += booked
        gpu.quarantined += quarantined
        free = gpu.total - gpu.booked - gpu.quarantined
        if free < 0:
            free = 0
        more = free - gpu.free
        node.free += more
        gpu.free = free
        if not gpu.total:
            self._vacate(gpu)
        elif closed:
            gpu.offer = -1
        elif not node.drain:
            gpu.open()
        if node.seen:
            node.seen = False
            self._unseen.append(node)
        self._indexes.outdate(gpu, more)

    def _vacate(self, gpu: GpuState) -> None:
        """Drop a GPU that its node has no more, and on which nothing is in use any more."""
        if not gpu.in_use:
            del gpu.node.gpus[gpu.index]
            self._forget(gpu.node)

    def _changed(self, node: NodeState) -> None:
        """The next view has to show it anew."""
        if node.seen:
            node.seen = False
            self._unseen.append(node)

    # ------------------------------------------------------------ inside: nodes

    def _node(self, name: str) -> NodeState:
        node = self._nodes.get(name)
        if node is None or not node.present:
            raise unknown_node(name)
        return node

    def _set(self, node: NodeState, owner: str, gpus: Sequence[Gpu], drain: bool) -> None:
        """Bring in a node that is in no index."""
        node.owner, node.drain, node.present = owner, drain, True
        self._regpu(node, gpus)
        self._census.join(node)
        self._resized = True
        if not drain:
            for gpu in node.gpus.values():
                if gpu.spec is not None:
                    gpu.open()
        self._indexes.join(node)
        self._changed(node)

    def _leave(self, node: NodeState) -> None:
        """Take a node out of every index; its GPUs close."""
        self._indexes.leave(node)
        self._census.leave(node)
        self._resized = True

    def _regpu(self, node: NodeState, gpus: Sequence[Gpu]) -> None:
        """Give the node these GPUs; what is in use stays so, by index."""
        old, specs = node.gpus, {gpu.index: gpu for gpu in gpus}
        node.gpus = {}
        for index in sorted(old.keys() | specs.keys()):
            was, spec = old.get(index), specs.get(index)
            if spec is not None or (was is not None and was.in_use):
                used = (0, 0) if was is None else (was.booked, was.quarantined)
                node.gpus[index] = GpuState(node, index, spec, *used)
        node.free = sum(gpu.free for gpu in node.gpus.values())

    def _forget(self, node: NodeState) -> None:
        """Drop a node that has left and on which nothing is in use any more."""
        if not node.present and not node.gpus:
            self._nodes.pop(node.name, None)


def _sorted(placement: Placement) -> list[tuple[str, int, int]]:
    return sorted((slot.node, slot.gpu, slot.mib.n) for slot in placement)


def _check_run(run: RunId) -> None:
    if type(run) is not RunId or not run.workload or type(run.attempt) is not int or run.attempt < 1:
        raise Invalid(f"{run!r:.80} is no id of a run.", "run", "Give a RunId of a workload and an attempt from 1.", run)


def _check_gpus(name: str, gpus: Sequence[Gpu]) -> None:
    if len({gpu.index for gpu in gpus}) < len(gpus):
        raise Invalid(
            f"Node {name!r:.80} has two GPUs of one index.", "gpus", "Give each GPU an index of its own.", [gpu.index for gpu in gpus]
        )
    for gpu in gpus:
        if gpu.index < 0 or gpu.total.n < 1:
            raise Invalid(f"GPU {gpu.index} of node {name!r:.80} has {gpu.total}.", "gpus", "Index from 0, VRAM from 1 MiB.", gpu.total.n)
