"""Which gateways live on one state folder: they serve one fleet, and the last one to leave turns off the local Ray.

A shared lock that a killed process gives back by itself, so nobody has to be counted.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ports.errors import Invalid


class Presence:
    """Held from creation until `leave`, or until the process is gone.

    fleet: the demo's, "" for a cluster that is no demo. alone: whether nobody else was there at the creation. Raises Invalid if
    the gateways that are there serve another one.
    """

    def __init__(self, folder: Path, fleet: str = "") -> None:
        self._handle = os.open(folder / "gateways.lock", os.O_CREAT | os.O_RDWR, 0o600)
        noted = folder / "demo-fleet"
        self.alone = self._alone()
        if self.alone:
            noted.write_text(fleet)
        fcntl.flock(self._handle, fcntl.LOCK_SH)
        there = noted.read_text() if noted.exists() else fleet
        if there != fleet:
            os.close(self._handle)
            raise _other_fleet(folder, fleet, there)

    def leave(self) -> bool:
        """Give it back; True if nobody else is there any more."""
        try:
            return self._alone()
        finally:
            os.close(self._handle)

    def _alone(self) -> bool:
        """Whether nobody else is there; if so, nobody comes until the lock is shared or given back."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _other_fleet(folder: Path, fleet: str, there: str) -> Invalid:
    asked = f"is {fleet!r}" if fleet else "is not given"
    serves = f"serves {there!r}" if there else "serves a cluster that is no demo"
    return Invalid(
        f"--demo-fleet {asked}, but a gateway that runs on the state folder {str(folder)!r} {serves}.",
        "--demo-fleet",
        "Stop that gateway first, give the same fleet, or set STATE_DIR to another folder.",
        fleet,
    )
