"""What every source of ids and secrets keeps to."""

from __future__ import annotations

import re

import pytest

from adapters.local.randomness import SystemRandomness
from ports.randomness import Randomness


class RandomnessContract:
    """Give a fixture `randomness`."""

    def test_a_token_is_lower_case_letters_and_digits(self, randomness: Randomness) -> None:
        """It becomes a Kubernetes name and a part of a key."""
        assert re.fullmatch("[a-z0-9]{26,40}", randomness.token())

    def test_tokens_differ(self, randomness: Randomness) -> None:
        """Two jobs of one uid would share their money."""
        assert 1000 == len({randomness.token() for _ in range(1000)})


class TestSystemRandomness(RandomnessContract):
    @pytest.fixture
    def randomness(self) -> SystemRandomness:
        return SystemRandomness()
