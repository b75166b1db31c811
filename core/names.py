"""Names that are derived, never drawn: the same request gives the same id, wherever it lands."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache


def _digest(*parts: str) -> str:
    data = b"\0".join(part.encode("utf-8", "surrogatepass") for part in parts)
    return base64.b32encode(hashlib.sha256(data).digest()[:20]).decode().lower()  # more than any name takes of it


@lru_cache(1024)  # a request asks more than once
def job_id(user: str, key: str) -> str:
    """The id of what `user` submits under that idempotency key: 24 characters, a valid Kubernetes name."""
    return f"job-{_digest(user, key)[:20]}"


@lru_cache(4096)  # the same few ask again and again
def user_hash(user: str) -> str:
    """A user as a path segment or label: 26 characters of [a-z2-7]."""
    return _digest(user)[:26]


def upload_key(user: str, sha256: str) -> str:
    """Where a user's upload waits for a submit: per user, since knowing a digest is no right to its bytes."""
    return f"uploads/{user_hash(user)}/{sha256}"
