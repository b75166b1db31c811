"""Whether the kernel killed for want of memory: a counter, read at go and at the end (cgroup v2, v1, whole machine)."""

from __future__ import annotations

import os
from contextlib import suppress


def kills() -> int:
    """OOM kills so far, as near to this process as can be read; 0 if nowhere."""
    for path in _counters():
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            for line in file:
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
    return 0


def _counters() -> list[str]:
    v1, v2 = "", ""
    with suppress(OSError), open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == "memory":
                v1 = path
            elif not controllers:
                v2 = path
    candidates = [f"/sys/fs/cgroup{v2.rstrip('/')}/memory.events", "/sys/fs/cgroup/memory.events"]
    if v1:
        candidates += [f"/sys/fs/cgroup/memory{v1}/memory.oom_control", "/sys/fs/cgroup/memory/memory.oom_control"]
    return [path for path in candidates if os.path.exists(path)] + ["/proc/vmstat"]
