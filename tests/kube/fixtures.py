"""The fixtures of tests on a real control plane: `plane`, one per run, and a fresh namespace per test with a client for it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from adapters.k8s.client import KubeClient, connect
from tests.kube.binaries import MISSING, REMEDY, assets
from tests.kube.plane import Plane, private_plane, shared_plane


def _assets() -> Path:
    """Skips where there is none; in CI that is a failure."""
    found = assets()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{MISSING}; {REMEDY}")
        pytest.skip(MISSING)
    return found


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Plane]:
    found = _assets()
    base = tmp_path_factory.getbasetemp()
    with shared_plane(found, (base if worker_id == "master" else base.parent) / "kube") as running:
        yield running


@pytest.fixture(scope="session")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane of this worker's own, which a test may stop, restart and make forget, and leaves running."""
    with private_plane(_assets(), tmp_path_factory.mktemp("plane")) as made:
        yield made


@pytest.fixture(scope="session")
def admin(plane: Plane) -> Path:
    """A kubeconfig of the administrator."""
    return plane.kubeconfig()


@pytest.fixture(scope="session")
def core_api(admin: Path) -> Iterator[CoreV1Api]:
    with closing(connect(kubeconfig=str(admin))) as client:
        yield CoreV1Api(client.api)


@pytest.fixture
def namespace(core_api: CoreV1Api) -> str:
    return fresh_namespace(core_api)


def fresh_namespace(api: CoreV1Api) -> str:
    name = f"test-{secrets.token_hex(6)}"
    api.create_namespace({"metadata": {"name": name}})
    return name


@pytest.fixture
def client(admin: Path, namespace: str) -> Iterator[KubeClient]:
    """Of an administrator, for the test's own namespace."""
    with closing(connect(namespace, str(admin))) as made:
        yield made
