"""From what the supervisor saw to how the run is said to have ended. Pure.

A whole result counts before anything else. Then what we did ourselves (killed, never told to go). Then how the
user's process ended. `sys.exit(0)` sends a result of None, so code 0 without a result means `os._exit(0)`.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field

from gridweave_agent import protocol
from gridweave_agent.protocol import Exit

_MESSAGE, _TRACEBACK = 8_192, 65_536
_NOT_YOURS = "This is no fault of the function: submit it again. Whoever runs the cluster has to look after that disk."


@dataclass(frozen=True)
class Seen:
    """status: raw wait status of the user's process, None if it was never collected. killed: why we ended it, "" if
    we did not. complete: "R" or "X" of a whole result. failure: why that was not kept. lost: why this node could not keep it.
    oom: the kernel's counter rose."""

    started: bool
    status: int | None
    killed: str = ""
    complete: str = ""
    failure: str = ""
    lost: str = ""
    note: dict[str, object] = field(default_factory=dict)
    oom: bool = False
    log_tail: str = ""


def classify(seen: Seen) -> Exit:
    tail = seen.log_tail
    if not seen.started:
        return _never_ran(seen)
    if seen.complete and seen.failure:
        return Exit(protocol.RAISED, message=f"The function ended, but {seen.failure}.", log_tail=tail)
    if seen.complete == "R" and seen.lost:
        return Exit(protocol.RETURNED, message=f"The function returned, but its result is lost: {seen.lost}. {_NOT_YOURS}", log_tail=tail)
    if seen.complete == "R":
        return Exit(protocol.RETURNED, code=0)
    if seen.complete == "X":
        message = f"{seen.note.get('type', 'Exception')}: {seen.note.get('message', '')}".removesuffix(": ")
        return Exit(protocol.RAISED, message=message[:_MESSAGE], traceback=_cut(str(seen.note.get("traceback", ""))), log_tail=tail)
    if seen.killed:
        return Exit(protocol.KILLED, message=seen.killed, log_tail=tail)
    if seen.status is None:
        return Exit(protocol.RUNNER_LOST, message="The process that watches the user's process was killed.", log_tail=tail)
    if os.WIFSIGNALED(seen.status):
        return _signalled(os.WTERMSIG(seen.status), seen.oom, tail)
    code = os.WEXITSTATUS(seen.status)
    if code == 0:
        return Exit(
            protocol.EXITED, code=0, message="The process exited with code 0 before the function returned: no result came.", log_tail=tail
        )
    return Exit(protocol.EXITED, code=code, message=f"The process exited with code {code}.", log_tail=tail)


def _never_ran(seen: Seen) -> Exit:
    if seen.killed:
        return Exit(protocol.NEVER_RAN, message=seen.killed)
    return Exit(protocol.SETUP_FAILED, message="The process ended before it was told to go.", log_tail=seen.log_tail)


def _signalled(number: int, oom: bool, tail: str) -> Exit:
    name = signal.Signals(number).name if number in signal.valid_signals() and number < 32 else f"SIG{number}"
    oom = oom and number == signal.SIGKILL
    why = ": the machine or its container ran out of memory" if oom else ""
    return Exit(protocol.SIGNALLED, signal=name, oom=oom, message=f"The process was ended by {name}{why}.", log_tail=tail)


def _cut(text: str) -> str:
    """The end of a traceback says most."""
    return text if len(text) <= _TRACEBACK else "…" + text[-_TRACEBACK:]


def tail(path: str, size: int = 8_192, lines: int = 20) -> str:
    """The last lines of a log, as text; "" if there is none."""
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            return "\n".join(file.read(size).decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
