"""The scheduler's term as a number in memory. For simulations and unit tests."""

from __future__ import annotations

import threading

from ports.errors import Conflict, Invalid


class MemoryEpochs:
    """`ports.leadership.Epochs`."""

    def __init__(self) -> None:
        self._newest = 0
        self._lock = threading.Lock()

    def read(self) -> int:
        return self._newest

    def raise_to(self, epoch: int, seen: int) -> None:
        if epoch <= seen:
            raise Invalid(f"An epoch only grows: {epoch} is not above {seen}.", "epoch", "Give a number above the one seen.", str(epoch))
        with self._lock:
            if self._newest != seen:
                raise Conflict("epoch")
            self._newest = epoch
