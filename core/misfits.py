"""Which constraint of an ask rules every GPU of the fleet out, and what would fit instead.

Asked when it is known that nothing fits. The narrowest cause is named: a model or vendor that nobody has, then whose
hardware it may be, then the number of GPUs per node, and only then the amount of VRAM.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from attrs import evolve

from core.fleet import LedgerView, NodeView
from core.inventory import Fleet
from core.owners import SELF_HOST, Pool
from ports.errors import NeverFits
from ports.nodes import ORG
from ports.units import Mib
from ports.workloads import Ask

_SHOWS = "`gridweave gpus` shows the fleet."


def misfit(fleet: Fleet, ask: Ask, wanted: Sequence[Pool]) -> NeverFits:
    """The refusal of an ask that no GPU in those pools could ever hold."""
    view = fleet.capacity().view
    named = _unknown("gpu", "model", ask.model, (each.model for each in view.classes))
    named = named or _unknown("vendor", "vendor", ask.vendor, (each.vendor for each in view.classes))
    if named is not None:
        return named
    ours = [node for node in view.nodes.values() if any(pool.has(node.owner) for pool in wanted)]
    if not ours:
        return _nobodys(view, ask)
    counts = {node.name: sum(1 for _ in _of_kind(node, ask)) for node in ours}
    most = max(counts.values())
    if not most:
        return _elsewhere(view, ask, ours)
    largest = fleet.capacity().ledger.largest(ask, wanted)
    if most < ask.gpus:
        return _too_many(ask, most, next(name for name in sorted(counts) if counts[name] == most))
    return _too_large(fleet, ask, wanted, largest)


def _unknown(field: str, what: str, value: str | None, have: Iterable[str]) -> NeverFits | None:
    """value: a model or vendor that is asked for. have: those of the whole fleet."""
    names = sorted(set(have) - {""})
    if value is None or value in names:
        return None
    return NeverFits(f"No GPU of this fleet is of {what} {value!r}.", field, f"{_meant(value, names)}The {what}s are: {_listed(names)}.")


def _nobodys(view: LedgerView, ask: Ask) -> NeverFits:
    """No node at all belongs to whom the ask, or the plan, is narrowed to."""
    owners = sorted({node.owner for node in view.nodes.values()})
    if ask.owner == SELF_HOST:
        return NeverFits("No node of this fleet is your own.", "owner", "Leave owner out, or ask an admin to declare whose your node is.")
    if ask.owner is None:
        return NeverFits("No node of this fleet is open to your plan.", "owner", f"A paid plan may use providers' hardware. {_SHOWS}")
    owner = "a provider" if ask.owner == "provider" else ask.owner
    return NeverFits(
        f"No node of this fleet belongs to {owner}.", "owner", f"{_meant(ask.owner, owners)}The owners are: {_listed(owners)}."
    )


def _elsewhere(view: LedgerView, ask: Ask, ours: Sequence[NodeView]) -> NeverFits:
    """The fleet has the model and the vendor, but not together, or not where the ask may go."""
    kind = _kind(ask)
    owners = sorted({node.owner for node in view.nodes.values() if any(_of_kind(node, ask))})
    if not owners:
        vendors = sorted({each.vendor for each in view.classes if each.model == ask.model})
        return NeverFits(f"No GPU of this fleet is {kind}.", "vendor", f"{ask.model} is of {_listed(vendors)}; leave vendor out.")
    models = sorted({each.gpu.model for node in ours for each in node.gpus})
    if ask.owner is not None:
        whose = "your own hardware" if ask.owner == SELF_HOST else "any provider's hardware" if ask.owner == "provider" else ask.owner
        message = f"No {kind} of this fleet belongs to {whose}, which has: {_listed(models)}."
        return NeverFits(message, "owner", f"It belongs to {_listed(owners)}; leave owner out, or ask for another model.")
    message = f"No {kind} of this fleet is open to your plan: it belongs to {_listed(owners)}."
    return NeverFits(message, "gpu" if ask.model else "vendor", f"Ask for one of: {_listed(models)}.")


def _too_many(ask: Ask, most: int, node: str) -> NeverFits:
    kind = " of that kind" if ask.model or ask.vendor else ""
    whose = " that you may use" if ask.owner is None else f" of {ask.owner}"
    message = f"No node{whose} has {ask.gpus} GPUs{kind}; {most} is the most there is, on {node}."
    return NeverFits(message, "gpus", f"Ask for at most {most} GPU{'s' if most > 1 else ''}, which are of one node.")


def _too_large(fleet: Fleet, ask: Ask, wanted: Sequence[Pool], largest: Mib) -> NeverFits:
    kind = _kind(ask)
    shape = f"{ask.gpus} {kind}s of one node" if ask.gpus > 1 else f"1 {kind}"
    gang = f"{ask.workers} times " if ask.workers > 1 else ""
    message = f"Nothing that you may use could ever hold {gang}{shape} with {ask.mib} each."
    remedy = f"The largest that could be given in this shape is {largest} per GPU; {_SHOWS}"
    alone = fleet.capacity().ledger.largest(evolve(ask, gpus=1, workers=1), wanted)
    if ask.gpus * ask.workers > 1 and alone >= ask.mib:
        remedy = f"{_SHOWS} One GPU alone could have {alone}; {ask.gpus} of one node {largest} each."
    if not largest.n:
        return NeverFits(message, "gpus", f"There are too few such GPUs; {_SHOWS}")
    return NeverFits(message, "vram", remedy, largest.n)


def _of_kind(node: NodeView, ask: Ask) -> Iterable[object]:
    return (each for each in node.gpus if ask.model in (None, each.gpu.model) and ask.vendor in (None, each.gpu.vendor))


def _kind(ask: Ask) -> str:
    return " ".join(part for part in (ask.vendor, ask.model, "GPU") if part)


def _meant(value: str, names: Sequence[str]) -> str:
    by_case = {name.casefold(): name for name in names}
    begins = [name for folded, name in by_case.items() if folded.startswith(value.casefold())]
    close = begins or [by_case[each] for each in difflib.get_close_matches(value.casefold(), by_case, 1)]
    return f"Did you mean {close[0]}? " if close and value not in (ORG,) else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
