"""What arrives: rows of a trace made into asks for VRAM.

A trace counts thousandths of a GPU and does not say of which model. So each arrival draws a reference model, in
proportion to the fleet's GPUs, among models with a node of that many GPUs (and which its row allows). A part of one
GPU asks for that part of the model's VRAM, on any GPU that has it; whole GPUs ask for idle ones of at least that VRAM,
on one node. A row that names models is bound to the one that was drawn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Protocol

from attrs import frozen

from core.simulation.trace import Machine, Pod, capacity, gpus_by_model
from ports.errors import Invalid
from ports.units import Mib
from ports.workloads import Ask

WHOLE = 1000  # thousandths of a GPU


class Dice(Protocol):
    """Where chance comes from. `random.Random(seed)` is one."""

    def randrange(self, stop: int, /) -> int:
        """A whole number from 0 to below `stop`, each as likely."""
        ...

    def random(self) -> float:
        """A number from 0 to below 1."""
        ...


@frozen
class Models:
    """What a row may be drawn to be: names, MiB of each, and the running sum of their GPUs."""

    names: tuple[str, ...]
    totals: tuple[int, ...]
    upto: tuple[int, ...]


class Arrivals:
    """Makes asks of the rows of one trace for one fleet. Raises Invalid if no model of the fleet can serve a row."""

    def __init__(self, machines: Sequence[Machine], pods: Sequence[Pod]) -> None:
        if not machines or not pods:
            raise Invalid("There are no nodes, or no rows that ask for GPUs.", "trace", "Give a fleet and a trace with at least one each.")
        self.pods = tuple(pods)
        self.fleet = capacity(machines)
        self._gpus = gpus_by_model(machines)
        self._totals = {each.model: each.total.n for each in machines}
        self._widest = {model: max(each.gpus for each in machines if each.model == model) for model in self._gpus}
        self._models: dict[tuple[int, frozenset[str]], Models] = {}
        for pod in self.pods:
            self._models_of(pod)

    def _models_of(self, pod: Pod) -> Models:
        key = (pod.gpus, pod.models)
        known = self._models.get(key)
        if known is None:
            names = sorted(name for name in self._gpus if self._widest[name] >= pod.gpus and (not pod.models or name in pod.models))
            if not names:
                what = f"{pod.gpus} GPUs of one node" + (f" of {', '.join(sorted(pod.models))}" if pod.models else "")
                raise Invalid(
                    f"No node of the fleet has {what}.", "num_gpu", "Leave such rows out, or give a fleet that has them.", pod.gpus
                )
            upto = accumulate(self._gpus[name] for name in names)
            known = self._models[key] = Models(tuple(names), tuple(self._totals[name] for name in names), tuple(upto))
        return known

    def ask(self, pod: Pod, dice: Dice) -> Ask:
        models = self._models_of(pod)
        at = bisect_right(models.upto, dice.randrange(models.upto[-1]))
        model = models.names[at] if pod.models else None
        if pod.gpus == 1 and pod.milli < WHOLE:
            return Ask(Mib(part(pod, models.totals[at])), model=model)
        return Ask(Mib(models.totals[at]), pod.gpus, model=model, exclusive=True)

    def any(self, dice: Dice) -> Ask:
        """Of a row drawn from all of them."""
        return self.ask(self.pods[dice.randrange(len(self.pods))], dice)

    def upto(self, share: float, dice: Dice) -> Iterator[Ask]:
        """Every row once, shuffled, then rows drawn again, until `share` of the fleet's VRAM has been asked for."""
        pods, asked = list(self.pods), 0
        for at in range(len(pods) - 1, 0, -1):
            other = dice.randrange(at + 1)
            pods[at], pods[other] = pods[other], pods[at]
        count = 0
        while asked < share * self.fleet:
            ask = self.ask(pods[count], dice) if count < len(pods) else self.any(dice)
            count += 1
            asked += wanted(ask)
            yield ask

    def mean(self) -> float:
        """MiB that an arrival asks for on average, exactly over rows and models."""
        total = 0.0
        for pod in self.pods:
            models, before = self._models_of(pod), 0
            for mib, upto in zip(models.totals, models.upto, strict=True):
                asks = part(pod, mib) if pod.gpus == 1 and pod.milli < WHOLE else mib * pod.gpus
                total += asks * (upto - before) / models.upto[-1]
                before = upto
        return total / len(self.pods)


def part(pod: Pod, total: int) -> int:
    """MiB of that part of a GPU, rounded up."""
    return -(-pod.milli * total // WHOLE)


def wanted(ask: Ask) -> int:
    """MiB of VRAM that the ask is for."""
    return ask.mib.n * ask.gpus * ask.workers
