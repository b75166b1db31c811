"""Gunicorn, embedded: one process of threads, in which the journal is opened after the fork."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import falcon
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from adapters.local.clock import SystemClock
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from runtimes.clock_offset import clock_of
from runtimes.credits.app import Books, make_app
from runtimes.failpoints import Failpoints

THREADS = 16  # as many connections has the journal


class CreditsServer(BaseApplication):  # type: ignore[misc]
    """folder: where `credits.db` is. grace_s: for requests under way at SIGTERM."""

    def __init__(self, folder: Path, token: str, listener: socket.socket, grace_s: int) -> None:
        self._folder, self._token, self._listener, self._grace_s = folder, token, listener, grace_s
        self._opened = ExitStack()
        super().__init__()

    def load_config(self) -> None:
        wanted: dict[str, Any] = {
            "bind": [f"fd://{self._listener.fileno()}"],
            "workers": 1,
            "worker_class": "gthread",
            "threads": THREADS,
            "graceful_timeout": self._grace_s,
            "timeout": 120,
            "keepalive": 75,
            "proc_name": "gridweave-credits",
            "loglevel": "warning",
            "forwarded_allow_ips": "",
            "header_map": "drop",
            "control_socket_disable": True,
        }
        for name, value in wanted.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> falcon.App[falcon.Request, falcon.Response]:
        return make_app(opened(self._folder, self._opened), self._token)


def opened(folder: Path, stack: ExitStack) -> Books:
    """Raises Unavailable, Refused."""
    database = open_credits(folder)
    stack.callback(database.close)
    books = Books(SqliteCredits(database, clock_of(os.environ, SystemClock())), SqliteMetering(database))
    points = Failpoints.read(os.environ)
    return books if points is None else Books(points.wrapped(books.credits, "credits"), points.wrapped(books.metering, "metering"))
