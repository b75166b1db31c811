"""What is said beside the log and the values of a program: on stderr, and only if anybody reads it."""

from __future__ import annotations

import contextlib
import sys
from typing import IO


def say(text: str, to: IO[str] | None = None) -> None:
    """A line. to: stderr, as it is then, if not given; a process may have none."""
    stream = to if to is not None else sys.stderr
    if stream is not None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it
            print(text, file=stream, flush=True)
