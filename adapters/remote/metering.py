"""Usage events to a receiver of CloudEvents, in batches. At least once: what got no answer is sent again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from adapters.remote.line import Line
from ports import cloudevents
from ports.metering import Usage

WHAT = "the metering service"
TRIES = 4
BATCH = 2_000  # events in one request


def line_to_metering(url: str, token: str) -> Line:
    """The caller closes it."""
    return Line(url, token, what=WHAT, tries=TRIES, ours=True)


class RemoteMetering:
    """`ports.metering.Metering`. The line is the caller's to close."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def record(self, usage: Sequence[Usage]) -> None:
        """Also of nothing it is asked, so that whoever wants to know hears whether it answers."""
        for first in range(0, max(1, len(usage)), BATCH):
            batch = [cloudevents.wrapped(each) for each in usage[first : first + BATCH]]
            body = json.dumps(batch, separators=(",", ":")).encode()  # ASCII
            self._line.post("/v1/events", body, cloudevents.BATCH_TYPE)
