"""A descriptor that becomes readable when a child has changed: what a single-threaded `poll` loop needs."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


class ChildWakeup:
    """`fd` is readable after SIGCHLD, until `clear`. One per process; `close` before user code."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    @property
    def fds(self) -> tuple[int, int]:
        return self.fd, self._write

    def clear(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.fd, 4096):
                pass

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(self.fd)
        os.close(self._write)
