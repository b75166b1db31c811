"""One rig for the session, and one worker for all tests of this folder, so that they share it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.rig import Rig, standing, until

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def standing_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with standing(tmp_path_factory.mktemp("e2e")) as rig:
        yield rig


@pytest.fixture
def rig(standing_rig: Rig) -> Iterator[Rig]:
    """The rig with an idle fleet; a test that leaves something booked is the one that fails."""
    yield standing_rig
    standing_rig.forget_users()
    until(standing_rig.idle, "every GPU free again")
