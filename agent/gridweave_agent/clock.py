"""The one clock of a run: CLOCK_BOOTTIME, which neither steps nor stops in sleep, named by its boot."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since boot, sleep included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def boot_id() -> str:
    """The kernel's name of this boot: times of two boots are never subtracted."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
