"""Which few workloads would have to move to let a waiting ask in. Nothing is moved: an operator reads it.

A *move* ends one movable run on all of its slots and starts it again elsewhere, within its own pools and constraints. A
plan's runs stop, the ask starts, and then they start where the plan says; so two may also change places. What is found is
the fewest: plans with one move are all looked at before any with two.

The search places what has no place yet, hardest first: where it fits, or where it would if some of the runs there went; those
are then to be placed too, as long as moves are left. GPUs in the same state count once. What has more places than all
others together could spoil is put last and costs nothing. So a large fleet is decided in few steps; if not, it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from attrs import field, frozen

from core.fleet import LedgerView
from core.owners import Pool
from core.packing import check_ask
from ports.errors import Invalid
from ports.units import Mib
from ports.workloads import Ask, Placement, RunId, Slot

MOST_MOVES = 3
MOST_STEPS = 200_000  # targets looked at


@frozen
class Movable:
    """A run that may be stopped and started elsewhere. pools: where its user may run it, best first."""

    run: RunId
    placement: Placement
    ask: Ask
    pools: tuple[Pool, ...]


@frozen
class Move:
    run: RunId
    was: Placement
    to: Placement


@frozen
class Plan:
    """placement: of the ask, once those moves are made. No moves: it fits as it is."""

    moves: tuple[Move, ...]
    placement: Placement


@frozen
class NoPlan:
    """moves: no plan with up to so many was found. certain: there is none; else the search was cut short."""

    moves: int
    certain: bool

    def __str__(self) -> str:
        if self.certain:
            return f"No plan with up to {self.moves} moves would let it in."
        return f"No plan with up to {self.moves} moves was found; there may be one, the search was cut short."


def advise(view: LedgerView, ask: Ask, pools: Sequence[Pool], movable: Iterable[Movable], most: int = MOST_MOVES) -> Plan | NoPlan:
    """The fewest moves that let the ask in. most: 0 to 3. Raises Invalid."""
    check_ask(ask)
    if not 0 <= most <= MOST_MOVES:
        raise Invalid(f"{most} moves are not searched.", "moves", f"Give 0 to {MOST_MOVES}.", most)
    search = _Search(view, movable)
    try:
        for budget in range(most + 1):
            for pool in pools:
                found = search.place(_workers(None, ask, pool), budget, _State())
                if found is not None:
                    return search.plan(found)
    except _CutShortError:
        return NoPlan(most, certain=False)
    return NoPlan(most, certain=True)


class _CutShortError(Exception):
    """The search takes too long."""


class _Gpu:
    """room: MiB that are free; below 0 where more is in use than there is. runs: movable ones on it, and their MiB."""

    __slots__ = ("drain", "index", "model", "node", "owner", "room", "runs", "total", "vendor")

    def __init__(self, node: str, owner: str, drain: bool, index: int, model: str, vendor: str, total: int, room: int) -> None:
        self.node, self.owner, self.drain, self.index = node, owner, drain, index
        self.model, self.vendor, self.total, self.room = model, vendor, total, room
        self.runs: dict[RunId, int] = {}


@frozen(eq=False)
class _Worker:
    """To be placed. run: None for the waiting ask."""

    run: RunId | None
    ask: Ask
    pool: Pool

    def may(self, gpu: _Gpu) -> bool:
        ask = self.ask
        if gpu.drain or gpu.total < ask.mib.n or not self.pool.has(gpu.owner):
            return False
        return ask.model in (None, gpu.model) and ask.vendor in (None, gpu.vendor)

    def takes(self, gpu: _Gpu) -> int:
        return gpu.total if self.ask.exclusive else self.ask.mib.n


def _workers(run: RunId | None, ask: Ask, pool: Pool) -> tuple[_Worker, ...]:
    return tuple(_Worker(run, ask, pool) for _ in range(ask.workers))


@frozen
class _State:
    """taken: MiB booked by the plan, less those given up. placed: GPUs of each worker. gone: runs that move."""

    taken: dict[_Gpu, int] = field(factory=dict)
    placed: tuple[tuple[_Worker, tuple[_Gpu, ...]], ...] = ()
    gone: frozenset[RunId] = frozenset()

    def room(self, gpu: _Gpu) -> int:
        return gpu.room - self.taken.get(gpu, 0)

    def shares(self, worker: _Worker) -> set[_Gpu]:
        """What other workers of its gang have: not for it."""
        return {gpu for other, gpus in self.placed if other.run == worker.run for gpu in gpus}


class _Search:
    def __init__(self, view: LedgerView, movable: Iterable[Movable]) -> None:
        self._nodes: list[list[_Gpu]] = []
        at: dict[tuple[str, int], _Gpu] = {}
        for node in sorted(view.nodes.values(), key=lambda each: each.name):
            gpus = []
            for each in node.gpus:
                spec = each.gpu
                room = spec.total.n - each.booked.n - each.quarantined.n
                made = _Gpu(node.name, node.owner, node.drain, spec.index, spec.model, spec.vendor, spec.total.n, room)
                at[node.name, spec.index] = made
                gpus.append(made)
            self._nodes.append(gpus)
        self._movable = {each.run: each for each in movable if all((slot.node, slot.gpu) in at for slot in each.placement)}
        self._slots = {run: [(at[slot.node, slot.gpu], slot.mib.n) for slot in each.placement] for run, each in self._movable.items()}
        for run, slots in self._slots.items():
            for gpu, mib in slots:
                gpu.runs[run] = mib
        self._widest = max((len(slots) for slots in self._slots.values()), default=0)
        self._steps = 0

    def place(self, workers: tuple[_Worker, ...], budget: int, state: _State) -> _State | None:
        """All of them, with at most `budget` more runs gone; None if that can't be."""
        hard, easy = self._sorted(workers, budget, state)
        if not hard:
            return self._last(easy, state)
        worker, others = hard[0], (*hard[1:], *easy)
        spared = len(others) + budget * max(1, self._widest) + 1
        for gpus, runs in self._targets(worker, budget, state, spared):
            after = self._moved(state, runs, worker, gpus)
            for homes in self._homes(runs):
                found = self.place((*others, *homes), budget - len(runs), after)
                if found is not None:
                    return found
        return None

    def plan(self, state: _State) -> Plan:
        """What the found state means."""
        slots: dict[RunId | None, list[Slot]] = {}
        for worker, gpus in state.placed:
            made = (Slot(gpu.node, gpu.index, Mib(worker.takes(gpu))) for gpu in gpus)
            slots.setdefault(worker.run, []).extend(made)
        moves = (Move(run, self._movable[run].placement, tuple(slots[run])) for run in sorted(state.gone))
        return Plan(tuple(moves), tuple(slots[None]))

    # ------------------------------------------------------------ inside

    def _sorted(self, workers: tuple[_Worker, ...], budget: int, state: _State) -> tuple[list[_Worker], list[_Worker]]:
        """Those that have to be searched for, fewest places first, and those that will find one whatever the others do."""
        spoilt = sum(each.ask.gpus for each in workers) + budget * self._widest
        counted = [(sum(1 for _ in zip(range(spoilt + 1), self._free(each, state), strict=False)), each) for each in workers]
        hard = sorted((pair for pair in counted if pair[0] <= spoilt), key=lambda pair: pair[0])
        return [each for _, each in hard], [each for count, each in counted if count > spoilt]

    def _free(self, worker: _Worker, state: _State) -> Iterator[tuple[_Gpu, ...]]:
        """Places where it fits as things are: one per GPU, or one per node for several."""
        shut, count = state.shares(worker), worker.ask.gpus
        for node in self._nodes:
            fits = [gpu for gpu in node if worker.may(gpu) and gpu not in shut and state.room(gpu) >= worker.takes(gpu)]
            if count == 1:
                yield from ((gpu,) for gpu in fits)
            elif len(fits) >= count:
                yield tuple(fits[:count])

    def _last(self, workers: Sequence[_Worker], state: _State) -> _State:
        for worker in workers:
            tightest = min(self._free(worker, state), key=lambda gpus: sum(state.room(gpu) for gpu in gpus))
            state = self._moved(state, (), worker, tightest)
        return state

    def _targets(self, worker: _Worker, budget: int, state: _State, spared: int) -> Iterator[tuple[tuple[_Gpu, ...], tuple[RunId, ...]]]:
        """GPUs for it, and the runs that have to go from them: as few as can be, never more than needed."""
        seen: dict[object, int] = {}
        shut = state.shares(worker)
        for node in self._nodes:
            may = [gpu for gpu in node if worker.may(gpu) and gpu not in shut]
            for gpus in combinations(may, worker.ask.gpus):
                like = (gpus[0].node if worker.ask.gpus > 1 else None, *(self._like(gpu, state) for gpu in gpus))
                seen[like] = seen.get(like, 0) + 1
                if seen[like] <= spared:
                    self._steps += 1
                    if self._steps > MOST_STEPS:
                        raise _CutShortError
                    for runs in self._evictions(worker, gpus, budget, state):
                        yield gpus, runs

    def _like(self, gpu: _Gpu, state: _State) -> object:
        """GPUs of which this is equal are as good as each other, as far as a search can tell."""
        stay = sorted((self._kind(run), mib) for run, mib in gpu.runs.items() if run not in state.gone)
        return gpu.owner, gpu.model, gpu.vendor, gpu.total, state.room(gpu), tuple(stay)

    def _kind(self, run: RunId) -> str:
        movable = self._movable[run]
        return str((movable.ask, movable.pools)) if len(movable.placement) == 1 else str(run)

    def _evictions(self, worker: _Worker, gpus: tuple[_Gpu, ...], budget: int, state: _State) -> Iterator[tuple[RunId, ...]]:
        here = sorted({run for gpu in gpus for run in gpu.runs if run not in state.gone and run != worker.run})
        enough: list[set[RunId]] = []
        for count in range(min(budget, len(here)) + 1):
            for runs in combinations(here, count):
                gone = set(runs)
                if not any(less <= gone for less in enough) and all(self._opens(worker, gpu, gone, state) for gpu in gpus):
                    enough.append(gone)
                    yield runs

    def _opens(self, worker: _Worker, gpu: _Gpu, gone: set[RunId], state: _State) -> bool:
        return state.room(gpu) + sum(mib for run, mib in gpu.runs.items() if run in gone) >= worker.takes(gpu)

    def _moved(self, state: _State, runs: Sequence[RunId], worker: _Worker, gpus: tuple[_Gpu, ...]) -> _State:
        taken = dict(state.taken)
        for run in runs:
            for gpu, mib in self._slots[run]:
                taken[gpu] = taken.get(gpu, 0) - mib
        for gpu in gpus:
            taken[gpu] = taken.get(gpu, 0) + worker.takes(gpu)
        return _State(taken, (*state.placed, (worker, gpus)), state.gone | set(runs))

    def _homes(self, runs: Sequence[RunId]) -> Iterator[tuple[_Worker, ...]]:
        """Every way to give each of those runs a pool."""
        if not runs:
            yield ()
            return
        first = self._movable[runs[0]]
        for pool in first.pools:
            for others in self._homes(runs[1:]):
                yield (*_workers(first.run, first.ask, pool), *others)
