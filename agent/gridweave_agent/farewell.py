"""The end of the user's process: as an interpreter's, without taking every module apart, which costs more than a short run.

Threads are joined, atexit handlers run, and what was written to files that nobody closed is flushed.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import threading
from contextlib import suppress


def leave(code: object) -> None:
    """End the process with what `sys.exit` was given: None, a code, or a message for stderr. Does not return."""
    status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
    if code is not None and not isinstance(code, int):
        with suppress(Exception):
            print(code, file=sys.stderr)
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter itself calls here
        atexit._run_exitfuncs()
    except SystemExit as error:
        status = error.code & 0xFF if isinstance(error.code, int) else status
    except BaseException:
        sys.excepthook(*sys.exc_info())
    _flush()
    os._exit(status)


def _flush() -> None:
    for thing in gc.get_objects():  # without those that were there before the user came
        if issubclass(type(thing), io.IOBase):
            with suppress(Exception):
                thing.flush()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
