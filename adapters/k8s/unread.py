"""Objects of one kind that can't be read: each is skipped and told once, by its name, so that one does not stop the reading of all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import structlog

from adapters.k8s.forms import Form
from ports.errors import Unreadable

T = TypeVar("T")
log = structlog.get_logger()


class Unread:
    """kind: of the objects, for the log."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def skipping(self, form: Form, read: Callable[[Form], T]) -> T | None:
        """What `read` makes of it; None if it raises Unreadable."""
        try:
            found = read(form)
        except Unreadable as error:
            self._tell(str(form["metadata"]["name"]), error)
            return None
        if self._told:  # one that was mended is told again if it breaks again
            with self._lock:
                self._told.discard(str(form["metadata"]["name"]))
        return found

    def _tell(self, name: str, error: Unreadable) -> None:
        """Once, until it could be read."""
        with self._lock:
            if name in self._told:
                return
            self._told.add(name)
        log.warning("an object can't be read and is skipped", kind=self._kind, object=name, why=error.detail)
