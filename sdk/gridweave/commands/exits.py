"""Exit codes: what a script can tell from how a command ended."""

from __future__ import annotations

from gridweave.commands.output import Stopped, TimeIsUp, Unheard
from gridweave.errors import Cancelled, GridweaveError, JobFailed, NotFound, Refused, Unavailable

OK, FAILED, REFUSED, UNAVAILABLE, CANCELLED, NOT_FOUND = range(6)
FAULT, UNWRITABLE, TIME_IS_UP, INTERRUPTED, READER_GONE = 70, 74, 124, 130, 141
WORDS = (
    "Exit codes: 0 ok, 1 the job failed, 2 usage or refused, 3 unavailable, 4 cancelled, 5 not found, 70 a fault of gridweave, "
    "74 the output cannot be written, 124 the time of result --timeout is up (the job goes on), 130 interrupted, 141 the reader of a "
    "log went away while its job ran; at 74, 130 and 141 the job that was followed by submit is cancelled. 129 and 143: submit was ended "
    "by SIGHUP or SIGTERM, and the job goes on."
)
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, NOT_FOUND),
    (Refused, REFUSED),
    (Unavailable, UNAVAILABLE),
    (JobFailed, FAILED),
    (Cancelled, CANCELLED),
    (TimeIsUp, TIME_IS_UP),
)


def code_of(error: GridweaveError) -> int:
    """The exit code of a command that ended by this error."""
    if isinstance(error, Unheard):
        return READER_GONE if error.gone else UNWRITABLE
    if isinstance(error, Stopped):
        return 128 + error.number
    if isinstance(error, Refused) and error.kind == "fault":
        return FAULT
    return next((code for family, code in _CODES if isinstance(error, family)), FAILED)
