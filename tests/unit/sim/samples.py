"""A small trace in the form of the openb files, made anew for each test that wants one."""

from __future__ import annotations

import random
from pathlib import Path

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"node-{at:02},64000,262144,{gpus},{model}\n" for at, (model, gpus) in enumerate([("T4", 2)] * 4 + [("G2", 8)] * 2 + [("A10", 1)] * 2)
)
HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def pods(count: int = 120, seed: int = 0) -> str:
    """Rows of all kinds: parts of a GPU, whole ones, several, none; some never scheduled. They come to more than the fleet has."""
    dice, lines = random.Random(seed), []
    for at in range(count):
        gpus, milli = dice.choice([(1, 460), (1, 810), (1, 1000), (2, 1000), (8, 1000), (0, 0)])
        came = 600 * at + dice.randrange(600)
        start = dice.choice([f"{came + 5}", ""])
        lines.append(f"pod-{at:04},4000,8192,{gpus},{milli},,LS,Running,{came},{came + 5 + dice.randrange(40_000)},{start}\n")
    return HEADER + "".join(lines)


def written(folder: Path) -> tuple[str, str]:
    """Paths of node list and pod list."""
    nodes, trace = folder / "nodes.csv", folder / "pods.csv"
    nodes.write_text(NODES)
    trace.write_text(pods())
    return str(nodes), str(trace)
