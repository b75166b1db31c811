"""How our processes log: JSON lines on stderr when nobody watches, colours when somebody does.

Never the locals of a frame: they hold secrets.
"""

from __future__ import annotations

import logging
import sys

import structlog


def log_to_stderr() -> None:
    watched = sys.stderr.isatty()
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]
    if watched:
        processors += [
            structlog.processors.StackInfoRenderer(),
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
        ]
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
