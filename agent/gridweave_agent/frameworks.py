"""Tells frameworks how much of each GPU was booked: by environment where they read one, by a hook where they don't.

PyTorch reads none, so its own limit is queued when it is imported, and applied when it first touches CUDA.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def limit_torch(fractions: Sequence[float]) -> None:
    """fractions: booked share of each visible device, in order; 1.0 or more is no limit."""
    if any(fraction < 1 for fraction in fractions):
        sys.meta_path.insert(0, _AfterImport("torch", lambda torch: _limit(torch, fractions)))


def _limit(torch: Any, fractions: Sequence[float]) -> None:
    def apply() -> None:
        for device, fraction in enumerate(fractions):
            if fraction < 1 and device < torch.cuda.device_count():
                torch.cuda.set_per_process_memory_fraction(fraction, device)

    if hasattr(torch.cuda, "_lazy_call"):
        torch.cuda._lazy_call(apply)  # not at once: that would start CUDA in a process that may yet fork
    elif torch.cuda.is_available():
        apply()


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then(module)` once, right after the first import of `name`."""

    def __init__(self, name: str, then: Any) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            execute, then = spec.loader.exec_module, self._then

            def exec_module(module: ModuleType) -> None:
                execute(module)
                then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one loader object
        return spec
