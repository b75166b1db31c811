"""Which gateways live on one state folder: the last one to leave turns off the local Ray.

A shared lock that a killed process gives back by itself, so nobody has to be counted.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Presence:
    """Held from creation until `leave`, or until the process is gone."""

    def __init__(self, folder: Path) -> None:
        self._handle = os.open(folder / "gateways.lock", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Give it back; True if nobody else is there any more."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(self._handle)
        return True
