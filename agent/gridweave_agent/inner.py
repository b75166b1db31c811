"""The process between the supervisor and the user's: init of the run's PID namespace, or the lower subreaper.

It starts the user's process, passes on how that ended, and ends last of all below the supervisor. Orders come
down a socket, one byte each: L (with the run's lock, to be held to the end), T (ask the user's process group to end)
and K, or the socket's end (end everything).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from gridweave_agent import descendants, hygiene, isolation
from gridweave_agent.wakeup import ChildWakeup

STATUS = struct.Struct("<i")  # the raw wait status of the user's process
MOUNT_FAILED = 97  # exit code

Work = Callable[[], object]


def run(mode: str, orders: socket.socket, status: int, become_user: Callable[[], Work]) -> Work:
    """Never returns here; returns in the user's process what that has to do.

    become_user: called in the user's process, before anything else.
    """
    hygiene.ignore_polite_signals()
    if mode == isolation.NAMESPACE:
        isolation.die_with_parent()
        try:
            isolation.mount_own_proc()
        except OSError:
            os._exit(MOUNT_FAILED)
    else:
        isolation.adopt_orphans()
    wakeup = ChildWakeup()
    user = os.fork()
    if user == 0:
        wakeup.close()
        return become_user()
    close_all_but(orders.fileno(), status, *wakeup.fds)
    _watch(mode, orders, status, user, wakeup)
    os._exit(0)


def close_all_but(*kept: int) -> None:
    """Also pipes of others: they end when those who need them are gone, not when we are."""
    low = 3
    for fd in sorted(kept):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, 65_536)


def _watch(mode: str, orders: socket.socket, status: int, user: int, wakeup: ChildWakeup) -> None:
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    poll.register(wakeup.fd, select.POLLIN)
    ended = False
    while not ended:
        poll.poll()
        wakeup.clear()
        ended = _reap(user, status)
        order = _order(orders)
        if order == b"T":
            with suppress(OSError):
                os.killpg(user, signal.SIGTERM)
        elif order in (b"K", b""):
            break
    if mode == isolation.SUBREAPER:
        _kill_all(user, status, ended)


def _order(orders: socket.socket) -> bytes | None:
    """The next order, None if there is none. What comes with one stays open for as long as this process lives."""
    try:
        return socket.recv_fds(orders, 1, 1)[0]
    except BlockingIOError:
        return None


def _reap(user: int, status: int) -> bool:
    """Collect what has ended; pass on the status of the user's process. Whether that was among them."""
    while True:
        try:
            pid, raw = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        if pid == user:
            with suppress(OSError):
                os.write(status, STATUS.pack(raw))
            return True


def _kill_all(user: int, status: int, ended: bool) -> None:
    """Rounds of kills until no child is left; the pause lets the killed be reaped."""
    while True:
        descendants.kill_round()
        if ended:
            if not descendants.reap():
                return
        else:
            ended = _reap(user, status)
        select.select([], [], [], 0.002)
