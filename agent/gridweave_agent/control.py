"""The supervisor's ear: orders from the agent, and from a successor that connects to its socket.

Lines of JSON. In: {"do": "go", "at_ms", "max_runtime_ms"} and {"do": "kill", "grace_ms"}. Out, to every agent
that listens: the run's state as it is now, {"state", "go_ms", "log_bytes"}.
"""

from __future__ import annotations

import json
import os
import select
import socket
from collections.abc import Mapping
from contextlib import suppress


def socket_address(path: str) -> tuple[str, int]:
    """An address for a socket at `path`, however long that is, and the descriptor to close after use.

    A unix socket's path has 107 bytes; by way of an open folder any path is short enough.
    """
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{fd}/{name}", fd


class Control:
    """The listening socket and the agents connected to it. Never blocks and never raises for what a peer does."""

    def __init__(self, path: str, first: socket.socket, poll: select.poll) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        address, fd = socket_address(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(address)
        finally:
            os.close(fd)
        self._listener.listen(8)
        self._listener.setblocking(False)
        self._poll = poll
        self._peers: dict[int, tuple[socket.socket, bytearray]] = {}
        poll.register(self._listener, select.POLLIN)
        self._add(first)

    def owns(self, fd: int) -> bool:
        return fd == self._listener.fileno() or fd in self._peers

    def orders(self, fd: int, state: Mapping[str, object]) -> list[dict[str, object]]:
        """What came in on `fd`; a new peer is told `state` at once."""
        if fd == self._listener.fileno():
            with suppress(OSError):
                peer, _ = self._listener.accept()
                self._add(peer)
                self._send(peer.fileno(), state)
            return []
        peer, buffer = self._peers[fd]
        try:
            data = peer.recv(65_536)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._drop(fd)
            return []
        buffer += data
        *lines, rest = bytes(buffer).split(b"\n")
        buffer[:] = rest
        return [order for order in map(_parsed, lines) if order is not None]

    def tell(self, state: Mapping[str, object]) -> None:
        for fd in tuple(self._peers):
            self._send(fd, state)

    def close(self) -> None:
        for fd in tuple(self._peers):
            self._drop(fd)
        self._listener.close()

    def _add(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        self._peers[peer.fileno()] = (peer, bytearray())
        self._poll.register(peer, select.POLLIN)

    def _send(self, fd: int, state: Mapping[str, object]) -> None:
        try:
            self._peers[fd][0].sendall(json.dumps(state).encode() + b"\n")
        except BlockingIOError:  # who does not read may connect again, and is told all
            self._drop(fd)
        except OSError:
            pass  # it has gone, but what it said before is still to be heard

    def _drop(self, fd: int) -> None:
        peer, _ = self._peers.pop(fd)
        with suppress(KeyError, ValueError):
            self._poll.unregister(fd)
        peer.close()


def _parsed(line: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
