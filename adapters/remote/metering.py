"""Usage events to a receiver of CloudEvents, in batches. At least once: what got no answer is sent again."""

from __future__ import annotations

import json
from collections.abc import Sequence

import structlog

from adapters.remote.line import Line
from ports import cloudevents
from ports.errors import Refused
from ports.metering import Usage

WHAT = "the metering service"
TRIES = 4
BATCH = 2_000  # events in one request
REMEMBERED = 10_000
log = structlog.get_logger("gridweave.metering")


def line_to_metering(url: str, token: str) -> Line:
    """The caller closes it."""
    return Line(url, token, what=WHAT, tries=TRIES, ours=True)


class RemoteMetering:
    """`ports.metering.Metering`. The line is the caller's to close."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._refused: dict[str, None] = {}  # ids that were told of, oldest first

    def record(self, usage: Sequence[Usage]) -> None:
        """Also of nothing it is asked, so that whoever wants to know hears whether it answers.

        An event that is refused would be refused for ever: it is found, written into the log in full and dropped, and holds up
        neither the others nor the money.
        """
        for first in range(0, max(1, len(usage)), BATCH):
            self._send(usage[first : first + BATCH])

    def _send(self, usage: Sequence[Usage]) -> None:
        events = [cloudevents.wrapped(each) for each in usage]
        try:
            self._line.post("/v1/events", json.dumps(events, separators=(",", ":")).encode(), cloudevents.BATCH_TYPE)  # ASCII
        except Refused as error:
            if not usage:
                raise
            if len(usage) > 1:
                half = len(usage) // 2
                self._send(usage[:half])
                self._send(usage[half:])
            elif usage[0].id not in self._refused:
                self._refused[usage[0].id] = None
                if len(self._refused) > REMEMBERED:
                    del self._refused[next(iter(self._refused))]
                log.error("alarm", what="metering refused an event, which is dropped", why=str(error), usage=events[0])
