"""A worker keeps to one processor.

The threads of one interpreter run one at a time, by a lock. Where each has a processor of its own, every call that lets go of the
lock (a file, a statement of SQLite) wakes another thread on another processor and then waits to get it back: on two processors a
submit costs two and a half times what it costs on one. More processors are used by more workers.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

_ALL = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []  # before anybody narrows it


def keep_to_one() -> None:
    """This process from now on: the calling thread, and those that it starts. It takes one that the fewest of its siblings have."""
    if len(_ALL) > 1:
        os.sched_setaffinity(0, {_free(_siblings(), _ALL)})


def _free(siblings: list[tuple[bool, frozenset[int]]], processors: list[int]) -> int:
    """siblings: in the order of their birth, whether it is this process itself, and what it keeps to. Those that were born before this
    one and have not chosen yet will take the first ones."""
    rank = next((at for at, (own, _) in enumerate(siblings) if own), 0)
    taken = Counter(next(iter(kept)) for own, kept in siblings if not own and len(kept) == 1)
    return min(processors, key=lambda each: (taken[each], (processors.index(each) - rank) % len(processors)))


def _siblings() -> list[tuple[bool, frozenset[int]]]:
    parent, found = os.getppid(), list[tuple[bool, frozenset[int]]]()
    with suppress(OSError):
        for pid in map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()):
            with suppress(ProcessLookupError):
                found.append((pid == os.getpid(), frozenset(os.sched_getaffinity(pid))))
    return found


def go_anywhere() -> None:
    """The calling thread: one that spends its time outside the lock, on bytes."""
    if _ALL:
        os.sched_setaffinity(0, _ALL)
