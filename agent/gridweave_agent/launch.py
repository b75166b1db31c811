"""From a prepare command to what the supervisor and the user's process must know: no grant, no token, only the run.

The user's variables arrive byte for byte; what pins the booked devices comes after them and wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from gridweave_agent.protocol import Gpu, Prepare
from gridweave_agent.rundir import RunDir
from gridweave_agent.settings import Settings

_VISIBLE = {"nvidia": ("CUDA_VISIBLE_DEVICES",), "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"), "intel": ("ZE_AFFINITY_MASK",)}


def build(prepare: Prepare, run: RunDir, settings: Settings, gpus: Mapping[int, Gpu], venv: str, path: str) -> dict[str, object]:
    """The launch of one run, as JSON. venv: of its environment, "" if it needs none. path: the node's PATH."""
    code = run.code if "code" in prepare.inputs else ""
    work = run.work if prepare.env.working_dir or not code else code
    shares = fractions(prepare, gpus)
    return {
        "run": prepare.run,
        "name": prepare.name or "function",
        "function": f"{run.inputs}/function",
        "args": f"{run.inputs}/args",
        "code": code,
        "cwd": work,
        "main": f"{run.inputs}/main.py",
        "venv": venv,
        "environ": environment(prepare, gpus, shares, code, venv, path),
        "fractions": shares,
        "uid": settings.run_as_uid,
        "log_cap_bytes": settings.log_cap_bytes,
        "result_cap_bytes": min(settings.result_cap_bytes, prepare.output.max_size or settings.result_cap_bytes),
        "heartbeat_ms": settings.heartbeat_ms,
    }


def environment(prepare: Prepare, gpus: Mapping[int, Gpu], shares: list[float], code: str, venv: str, path: str) -> dict[str, str]:
    """The variables that the run gets on top of the node's scrubbed ones."""
    ours = {"PYTHONUNBUFFERED": "1"}  # a script that it starts logs live too
    if code:
        ours["PYTHONPATH"] = code
    if venv:
        ours |= {"VIRTUAL_ENV": venv, "PATH": f"{venv}/bin:{path}"}
    return ours | prepare.env.env_vars | prepare.extra_env | devices(prepare, gpus) | _memory(prepare, shares)


def devices(prepare: Prepare, gpus: Mapping[int, Gpu]) -> dict[str, str]:
    """What makes exactly the booked GPUs visible, by each vendor's own variable; by UUID where every GPU has one."""
    booked = [gpus[slot.gpu] for slot in prepare.slots if slot.gpu in gpus]
    vendors = {gpu.vendor.lower() for gpu in booked} or {"nvidia"}
    variables: dict[str, str] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # indexes mean what the driver says
    for vendor in sorted(vendors):
        mine = [gpu for gpu in booked if gpu.vendor.lower() == vendor]
        by_uuid = vendor == "nvidia" and all(gpu.uuid for gpu in mine)
        names = ",".join(gpu.uuid if by_uuid else str(gpu.index) for gpu in mine)
        if len({gpu.index for gpu in mine}) != len(mine):
            raise ValueError(f"slots: GPU {_twice([gpu.index for gpu in mine])} is booked twice by one run")
        variables |= dict.fromkeys(_VISIBLE.get(vendor, ("CUDA_VISIBLE_DEVICES",)), names)
    return variables


def _twice(indexes: list[int]) -> int:
    return next(first for first, second in pairwise(sorted(indexes)) if first == second)


def fractions(prepare: Prepare, gpus: Mapping[int, Gpu]) -> list[float]:
    """Booked share of each slot's GPU, in order."""
    totals = list(prepare.gpu_totals) or [gpus[slot.gpu].total_mib for slot in prepare.slots if slot.gpu in gpus]
    return [min(1.0, slot.mib / total) if total else 1.0 for slot, total in zip(prepare.slots, totals, strict=False)]


def _memory(prepare: Prepare, shares: list[float]) -> dict[str, str]:
    """How much memory frameworks may take, in the variables that they read."""
    variables = {"GRIDWEAVE_RUN": prepare.run, "GRIDWEAVE_VRAM_MIB": ",".join(str(slot.mib) for slot in prepare.slots)}
    if shares and min(shares) < 1:
        variables |= {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{min(shares):.4f}", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return variables
