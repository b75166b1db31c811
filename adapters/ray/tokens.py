"""Tokens of agents, derived and never stored: one secret of ours gives each node's agent its own two.

The command token may do everything; the tail token reads logs. Whoever learns one of them knows no other.
"""

from __future__ import annotations

import hashlib
import hmac


def command_token(secret: bytes, node: str) -> str:
    """What the scheduler shows to the agent of `node`: 64 hex digits."""
    return _derive(secret, f"command:{node}")


def tail_token(secret: bytes, node: str) -> str:
    """What a gateway shows to read logs at the agent of `node`: 64 hex digits."""
    return _derive(secret, f"tail:{node}")


def _derive(secret: bytes, purpose: str) -> str:
    return hmac.new(secret, purpose.encode(), hashlib.sha256).hexdigest()
