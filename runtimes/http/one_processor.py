"""A worker keeps to one processor.

The threads of one interpreter run one at a time, by a lock. Where each has a processor of its own, every call that lets go of the
lock (a file, a statement of SQLite) wakes another thread on another processor and then waits to get it back: on two processors a
submit costs two and a half times what it costs on one. More processors are used by more workers.
"""

from __future__ import annotations

import os

_ALL = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []  # before anybody narrows it


def keep_to_one() -> None:
    """This process from now on: the calling thread, and those that it starts. Workers that were forked together take different ones."""
    if len(_ALL) > 1:
        os.sched_setaffinity(0, {_ALL[os.getpid() % len(_ALL)]})


def go_anywhere() -> None:
    """The calling thread: one that spends its time outside the lock, on bytes."""
    if _ALL:
        os.sched_setaffinity(0, _ALL)
