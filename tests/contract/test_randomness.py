"""What every source of ids and secrets keeps to."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from adapters.local.randomness import SystemRandomness, lasting_secret
from ports.randomness import Randomness
from tests.contract.races import in_threads


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


def test_a_lasting_secret_is_the_same_for_everybody(tmp_path: Path) -> None:
    """Gateway processes must open one another's grants, also after a restart, and whoever comes first."""
    path = tmp_path / "state" / "grants.secret"
    answers = in_threads(lambda _: lasting_secret(path), 8)
    assert {lasting_secret(path)} == set(answers)
    assert 32 == len(lasting_secret(path))
    assert ["grants.secret"] == [each.name for each in path.parent.iterdir()]


def test_a_lasting_secret_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """It signs what may be read and written."""
    lasting_secret(tmp_path / "secret")
    assert 0o600 == stat.S_IMODE((tmp_path / "secret").stat().st_mode)
