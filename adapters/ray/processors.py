"""What is started here may run on every processor, also when the process that starts it keeps to one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_ALL = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset[int]()  # before anybody narrows it


@contextmanager
def every_processor() -> Iterator[None]:
    """For the calling thread, and so for the process that it starts within."""
    if not _ALL:
        yield
        return
    kept = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _ALL)
    try:
        yield
    finally:
        os.sched_setaffinity(0, kept)
