"""Gunicorn, embedded: its ASGI worker serves the application that each process makes after the fork."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from gunicorn.workers.gasgi import ASGIWorker  # type: ignore[import-untyped]

from runtimes.gunicorn_settings import configure
from runtimes.http.edge import Edge
from runtimes.http.one_processor import keep_to_one
from runtimes.settings import Settings

Make = Callable[[], Edge]


class GatewayWorker(ASGIWorker):  # type: ignore[misc]
    """Tells the application of SIGTERM at once, so that streams end with their resume id within the grace period."""

    def handle_exit_signal(self) -> None:
        self._say()
        super().handle_exit_signal()

    def handle_quit_signal(self) -> None:
        self._say()
        super().handle_quit_signal()

    def _say(self) -> None:
        app = getattr(self, "asgi", None)
        if isinstance(app, Edge):
            app.on_stopping()


class Server(BaseApplication):  # type: ignore[misc]
    """make: called in each worker after the fork, so that no connection and no thread crosses it."""

    def __init__(self, settings: Settings, listener: socket.socket, make: Make) -> None:
        self._settings, self._listener, self._make = settings, listener, make
        super().__init__()

    def load_config(self) -> None:
        grace = self._settings.shutdown_grace_seconds
        wanted: dict[str, Any] = {
            "workers": self._settings.workers,
            "worker_class": GatewayWorker,
            "worker_connections": 10_000,
            "graceful_timeout": grace,
            "timeout": 60,
            "keepalive": 30,
            "asgi_lifespan": "on",
            "proc_name": "gridweave-gateway",
            "limit_request_line": 8190,
        }
        configure(self.cfg, self._listener, wanted)

    def load(self) -> Edge:
        """In the worker, before it has threads."""
        if self._settings.one_processor:
            keep_to_one()
        return self._make()


def listen(host: str, port: int) -> socket.socket:
    """A bound and listening socket; port 0 takes any free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener
