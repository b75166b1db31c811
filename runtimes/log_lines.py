"""How our processes log: JSON lines on stderr when nobody watches, colours when somebody does.

The last lines are kept in the state folder too, for a debug bundle. Never the locals of a frame: they hold secrets.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from attrs import field, frozen

KEPT_BYTES = 1024 * 1024  # of one file; there are at most two


@frozen
class LastLines:
    """A file of JSON lines that any number of processes add to; when it is full, it becomes the older of two."""

    path: Path
    limit: int = KEPT_BYTES
    _open: list[int] = field(factory=list, init=False, repr=False)  # the descriptor that this process writes to, if it has one
    _adding: threading.Lock = field(factory=threading.Lock, init=False, repr=False)  # nobody writes to one that is being closed

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """As a processor of structlog; what can't be kept is not kept, and nobody fails by it."""
        shown = structlog.processors.format_exc_info(logger, method, dict(event))
        self.keep(logger, method, str(structlog.processors.JSONRenderer()(logger, method, shown)))
        return event

    def keep(self, logger: Any, method: str, line: Any) -> str:
        """The same where the line is made already: a text."""
        with suppress(OSError), self._adding:
            self._add(str(line))
        return str(line)

    def _add(self, line: str) -> None:
        """Another process may have made this file the older one, or one that has no name any more: then it is full."""
        if not self._open:
            self._open.append(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        handle = self._open[-1]
        os.write(handle, line.encode(errors="backslashreplace") + b"\n")
        ours = os.fstat(handle)
        if ours.st_size <= self.limit and ours.st_nlink:
            return
        self._open.clear()
        try:
            if os.path.samestat(ours, os.stat(self.path)):
                os.replace(self.path, self.older)
        finally:
            os.close(handle)

    @property
    def older(self) -> Path:
        return self.path.with_suffix(".older.jsonl")

    def read(self) -> bytes:
        """What is kept, oldest first."""
        return b"".join(path.read_bytes() for path in (self.older, self.path) if path.exists())


def last_lines(folder: Path) -> LastLines:
    """Of the processes on that state folder."""
    return LastLines(folder / "log.jsonl")


def log_to_stderr(kept: LastLines | None = None) -> None:
    watched = sys.stderr.isatty()
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if watched:
        processors += [] if kept is None else [kept]
        processors += [
            structlog.processors.StackInfoRenderer(),
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        processors += [] if kept is None else [kept.keep]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),  # each line in one write: several processes share it
        cache_logger_on_first_use=True,
    )
