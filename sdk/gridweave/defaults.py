"""The client that functions use: the one given to `use`, or one made from GRIDWEAVE_URL and GRIDWEAVE_API_KEY.

A forked child makes its own: connections must not be shared between processes.
"""

from __future__ import annotations

import atexit
import os
import threading

from gridweave.client import Client

_lock = threading.Lock()
_clients: dict[tuple[int, str, str], Client] = {}
_chosen: list[Client] = []


def use(client: Client | None) -> None:
    """Let every decorated function of this process use that client; None: the environment's again. Raises TypeError."""
    if client is not None and not isinstance(client, Client):
        raise TypeError(f"gw.use takes a client, not {client!r:.80}: gw.use(gw.Client(url, api_key))")
    _chosen[:] = [client] if client is not None else []


def current() -> Client:
    """The client in use. Raises Refused if GRIDWEAVE_URL is no address."""
    if _chosen:
        return _chosen[0]
    key = (os.getpid(), os.environ.get("GRIDWEAVE_URL", ""), os.environ.get("GRIDWEAVE_API_KEY", ""))
    with _lock:
        if key not in _clients:
            _clients[key] = Client()
            atexit.register(_clients[key].close)
        return _clients[key]
