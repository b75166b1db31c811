"""Ids and secrets from the operating system."""

from __future__ import annotations

import secrets


class SystemRandomness:
    """`ports.randomness.Randomness`."""

    def token(self) -> str:
        return secrets.token_hex(16)
