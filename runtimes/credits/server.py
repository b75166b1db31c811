"""The process of the credit service: threads, in which the journal is opened after the fork."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from adapters.local.clock import SystemClock
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from runtimes.clock_offset import clock_of
from runtimes.credits.app import Books, make_app
from runtimes.failpoints import Failpoints
from runtimes.thread_server import App, ThreadServer

THREADS = 16  # as many connections has the journal


def serve(folder: Path, token: str, listener: socket.socket, grace_s: int) -> None:
    """Until SIGTERM. folder: where `credits.db` is. grace_s: for requests under way then."""

    def make(stack: ExitStack) -> App:
        return make_app(opened(folder, stack), token)

    ThreadServer("gridweave-credits", listener, THREADS, grace_s, make).run()


def opened(folder: Path, stack: ExitStack) -> Books:
    """Raises Unavailable, Refused."""
    database = open_credits(folder)
    stack.callback(database.close)
    books = Books(SqliteCredits(database, clock_of(os.environ, SystemClock())), SqliteMetering(database))
    points = Failpoints.read(os.environ)
    return books if points is None else Books(points.wrapped(books.credits, "credits"), points.wrapped(books.metering, "metering"))
