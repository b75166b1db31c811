"""Gunicorn, embedded: one process of threads, as the control service and the credit service are. The gateway has its own (ASGI)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import falcon
from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]

from runtimes.gunicorn_settings import configure

App = falcon.App[falcon.Request, falcon.Response]


class ThreadServer(BaseApplication):  # type: ignore[misc]
    """name: of the process. grace_s: for requests under way at SIGTERM. make: called after the fork, so that no connection crosses
    it; what it opens it puts on the stack."""

    def __init__(self, name: str, listener: socket.socket, threads: int, grace_s: int, make: Callable[[ExitStack], App]) -> None:
        self._name, self._listener, self._threads, self._grace_s, self._make = name, listener, threads, grace_s, make
        self._opened = ExitStack()
        super().__init__()

    def load_config(self) -> None:
        wanted: dict[str, Any] = {
            "workers": 1,
            "worker_class": "gthread",
            "threads": self._threads,
            "graceful_timeout": self._grace_s,
            "timeout": 120,
            "keepalive": 75,
            "proc_name": self._name,
        }
        configure(self.cfg, self._listener, wanted)

    def load(self) -> App:
        return self._make(self._opened)
