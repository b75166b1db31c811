"""The fixtures of tests on a real control plane: `plane`, one per run, and `namespace`, a fresh one per test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.binaries import MISSING, REMEDY, assets
from tests.kube.plane import Plane, shared_plane


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Plane]:
    found = assets()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{MISSING}; {REMEDY}")
        pytest.skip(MISSING)
    base = tmp_path_factory.getbasetemp()
    with shared_plane(found, _shared(base if worker_id == "master" else base.parent)) as running:
        yield running


def _shared(base: Path) -> Path:
    return base / "kube"


@pytest.fixture
def namespace(plane: Plane) -> str:
    name = f"test-{secrets.token_hex(6)}"
    made = plane.kubectl("create", "namespace", name)
    assert made.returncode == 0, made.stderr
    return name
