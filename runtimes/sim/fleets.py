"""The fleet of a simulation, made from a node list: a part of it, some nodes given to providers, some added."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from attrs import evolve

from core.owners import check_owner, provider
from core.simulation.trace import Machine
from ports.errors import Invalid
from ports.units import Mib
from runtimes.sim.openb import MIB, MOST_GPUS

PROVIDERS = ("amber", "birch", "cedar", "delta")  # invented: whose the nodes are that the trace's owner is said to rent
MOST_NODES = 100_000
GRAMMAR = 'Write <nodes>x<MODEL>:<owner> or <nodes>x<GPUs>x<MODEL>:<owner>, as in "20xA10:provider:acme" or "2x8xA100-80GB:org".'
_ADDED = re.compile(r"([0-9]{1,6})x(?:([0-9]{1,4})x)?([A-Za-z][A-Za-z0-9_.-]*):(.+)", re.ASCII)
_SIZE = re.compile(r".*-([0-9]{1,5})GB", re.ASCII)


def part(machines: Sequence[Machine], share: float) -> tuple[Machine, ...]:
    """Every so many-th node of each kind, so that a small fleet is made as the whole is. Raises Invalid if none is left."""
    kinds: dict[tuple[str, int], list[Machine]] = defaultdict(list)
    for each in machines:
        kinds[each.model, each.gpus].append(each)
    kept = {each.name for kind in kinds.values() for each in _every(kind, share)}
    if not kept:
        raise Invalid(f"--fleet-share {share:g} leaves no node.", "--fleet-share", "Give a larger share, up to 1.", share)
    return tuple(each for each in machines if each.name in kept)


def _every(kind: Sequence[Machine], share: float) -> list[Machine]:
    """Of n nodes round(n x share), spread evenly."""
    marks = [round(count * share) for count in range(len(kind) + 1)]
    return [each for each, before, after in zip(kind, marks, marks[1:], strict=False) if after > before]


def rented(machines: Sequence[Machine], share: float, seed: int) -> tuple[Machine, ...]:
    """The same nodes, of which providers own that share of the GPUs, as near as whole nodes come to it; drawn by the seed."""
    order = list(range(len(machines)))
    random.Random(seed).shuffle(order)  # noqa: S311 - no secret is made of it
    goal = share * sum(each.gpus for each in machines)
    upto = accumulate(machines[at].gpus for at in order)
    theirs = [at for at, total in zip(order, upto, strict=True) if total - machines[at].gpus / 2 <= goal and goal > 0]
    owners = {at: provider(PROVIDERS[count % len(PROVIDERS)]) for count, at in enumerate(theirs)}
    return tuple(evolve(each, owner=owners[at]) if at in owners else each for at, each in enumerate(machines))


def added(texts: Sequence[str]) -> tuple[Machine, ...]:
    """The nodes that `--add` names. Raises Invalid."""
    return tuple(each for count, text in enumerate(texts) for each in _added(text, count))


def _added(text: str, count: int) -> list[Machine]:
    found = _ADDED.fullmatch(text.strip())
    if found is None:
        raise Invalid(f"--add {text!r:.80} can't be read.", "--add", GRAMMAR, text)
    nodes, gpus, model, owner = int(found[1]), int(found[2] or 1), found[3], check_owner(found[4], "--add")
    if nodes > MOST_NODES or not 1 <= gpus <= MOST_GPUS:
        raise Invalid(f"--add {text!r:.80} is out of range.", "--add", f"At most {MOST_NODES} nodes, of 1 to {MOST_GPUS} GPUs.", text)
    total = _vram(model, text)
    return [Machine(f"added-{count}-{at:05d}", model, gpus, total, owner) for at in range(nodes)]


def _vram(model: str, text: str) -> Mib:
    sized = _SIZE.fullmatch(model)
    if model not in MIB and (sized is None or not int(sized[1])):
        remedy = f"Name one of {', '.join(MIB)}, or a model with its size, as in A100-80GB."
        raise Invalid(f"--add {text!r:.80}: how much VRAM {model!r:.40} has is not known.", "--add", remedy, text)
    return Mib(MIB[model] if model in MIB else int(sized[1]) * 1024 if sized is not None else 0)
