"""Reads the CSV files of the openb trace (a production cluster's node list and pod lists, published by Alibaba).

    nodes: sn, gpu, model                  others are left alone
    pods:  name, num_gpu, gpu_milli        gpu_spec where there is one: models that it may run on, separated by "|"

The trace names a GPU's model and not its VRAM: `MIB` says it. Rows without GPUs are left out. Every fault is an Invalid
that names file, line, column, the value and what would be right.
"""

from __future__ import annotations

from pathlib import Path

from core.simulation.trace import Machine, Pod
from ports.units import Mib
from runtimes.sim.rows import Row, rows, some

MIB = {"T4": 15_109, "V100M16": 16_160, "P100": 16_280, "A10": 22_731, "V100M32": 32_510, "G2": 20_000, "G3": 30_000}
MOST_GPUS = 1024  # of a node


def read_nodes(path: Path) -> tuple[Machine, ...]:
    """The nodes with GPUs. Raises Invalid."""
    machines: dict[str, Machine] = {}
    for row in rows(path, ("sn", "gpu", "model")):
        name, gpus, model = row.text("sn"), row.whole("gpu", 0, MOST_GPUS), row.text("model")
        if not name or name in machines:
            raise row.wrong("sn", name, "Give each node a name of its own.")
        if gpus:
            if model not in MIB:
                raise row.wrong("model", model, f"Give one of {', '.join(MIB)}.")
            machines[name] = Machine(name, model, gpus, Mib(MIB[model]))
    return some(path, machines.values(), "nodes with GPUs")


def read_pods(path: Path) -> tuple[Pod, ...]:
    """The rows that ask for GPUs. Raises Invalid."""
    pods = (pod_of(row) for row in rows(path, ("num_gpu", "gpu_milli")))
    return some(path, (each for each in pods if each is not None), "rows that ask for GPUs")


def pod_of(row: Row) -> Pod | None:
    """None: it asks for no GPU. Raises Invalid."""
    gpus = row.whole("num_gpu", 0, MOST_GPUS)
    return Pod(gpus, row.whole("gpu_milli", 1, 1000), _spec(row)) if gpus else None


def _spec(row: Row) -> frozenset[str]:
    names = frozenset(name.strip() for name in row.text("gpu_spec").split("|") if name.strip())
    for name in sorted(names - MIB.keys()):
        raise row.wrong("gpu_spec", name, f"Give some of {', '.join(MIB)}, separated by |, or leave it empty.")
    return names
