"""Which GPUs this machine has, asked of NVIDIA's driver; a machine without one has none."""

from __future__ import annotations

import logging
import re
from typing import Any

from gridweave_agent.protocol import Gpu

log = logging.getLogger("gridweave_agent")

_MIB = 1 << 20
_NOISE = re.compile(r"\b(NVIDIA|Tesla|Quadro|GeForce|Generation|SXM\d?|PCIe|NVL|HBM\w*|\d+GB|GPU|Laptop)\b", re.IGNORECASE)


def gpus() -> tuple[Gpu, ...]:
    """Every GPU, by index; empty if there is no driver or no NVML library."""
    try:
        import pynvml  # not above: only a node with a driver needs it
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.info("no NVIDIA driver answers: %s", error)
        return ()
    try:
        return tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
    return Gpu(index, model_name(_text(nvml.nvmlDeviceGetName(handle)), total), "nvidia", total, _text(nvml.nvmlDeviceGetUUID(handle)))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def model_name(name: str, total_mib: int) -> str:
    """The driver's name as people write it: "NVIDIA A100-SXM4-80GB" is an A100-80GB, "NVIDIA L4" an L4-24GB.

    total_mib: what the driver gives is a little under the nominal size.
    """
    family = re.sub(r"[\s_-]+", "", _NOISE.sub(" ", name.replace("-", " "))) or "GPU"
    nominal = re.search(r"(\d+)\s?GB", name)
    return f"{family}-{nominal.group(1) if nominal else round_up_even(total_mib / 1024)}GB"


def round_up_even(gib: float) -> int:
    """The next even number of GiB: 22.5 is a 24 GB card, 15.0 a 16 GB one."""
    return int(-(-gib // 2) * 2)
