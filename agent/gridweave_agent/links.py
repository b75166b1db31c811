"""The agent's lines to the supervisors: one thread that hears them all, and orders sent down each."""

from __future__ import annotations

import json
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

from gridweave_agent.control import socket_address

log = logging.getLogger("gridweave_agent")

Heard = Callable[[str, Mapping[str, object]], None]


class Links:
    """heard(run, summary): what a supervisor says. closed(run): its line ended. Both are called in the one thread."""

    def __init__(self, heard: Heard, closed: Callable[[str], None]) -> None:
        self._heard, self._closed = heard, closed
        self._lock = threading.Lock()
        self._lines: dict[str, socket.socket] = {}
        self._buffers: dict[str, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._stopping = False
        self._thread = threading.Thread(target=self._listen, name="links", daemon=True)
        self._thread.start()

    def watch(self, run: str, line: socket.socket) -> None:
        """Hear this supervisor from now on."""
        line.setblocking(False)
        with self._lock:
            self._lines[run] = line
            self._buffers[run] = b""
            self._selector.register(line, selectors.EVENT_READ, run)

    def connect(self, run: str, path: str) -> bool:
        """Reach a supervisor by its socket; whether one listens there."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            address, fd = socket_address(path)
        except OSError:
            line.close()
            return False
        try:
            line.settimeout(5)
            line.connect(address)
        except OSError:
            line.close()
            return False
        finally:
            os.close(fd)
        self.watch(run, line)
        return True

    def send(self, run: str, order: Mapping[str, object]) -> bool:
        """Whether the supervisor's end took it."""
        with self._lock:
            line = self._lines.get(run)
            if line is None:
                return False
            try:
                line.sendall(json.dumps(order).encode() + b"\n")
            except OSError:
                return False
            return True

    def stop(self) -> None:
        self._stopping = True
        with suppress(OSError):
            os.write(self._wake_write, b"x")
        self._thread.join()
        with self._lock:
            for line in self._lines.values():
                line.close()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _listen(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select():
                if key.data is None:
                    continue
                try:
                    self._receive(key.data)
                except Exception:
                    log.exception("run %s: its supervisor's message could not be used", key.data)

    def _receive(self, run: str) -> None:
        with self._lock:
            line = self._lines[run]
        try:
            data = line.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            with self._lock:
                self._selector.unregister(line)
                del self._lines[run], self._buffers[run]
            line.close()
            self._closed(run)
            return
        *lines, self._buffers[run] = (self._buffers[run] + data).split(b"\n")
        for each in lines:
            summary = json.loads(each)
            self._heard(run, summary)
