"""One house on Kubernetes for the session, and one worker for all tests that use it, so that they share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kubernetes.client import CoreV1Api

from adapters.k8s.client import connect
from tests.e2e.rig import BIG, until
from tests.kube.fixtures import fresh_namespace
from tests.kube.house import KubeHouse, kube_house
from tests.kube.plane import Plane


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "standing_house" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(scope="session")
def standing_house(own_plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeHouse]:
    with closing(connect(kubeconfig=str(own_plane.kubeconfig()))) as admin:
        namespace = fresh_namespace(CoreV1Api(admin.api))
    with kube_house(own_plane, namespace, tmp_path_factory.mktemp("house")) as made:
        yield made


@pytest.fixture
def house(standing_house: KubeHouse) -> Iterator[KubeHouse]:
    """The house with an idle fleet and all of its processes; a test that leaves something booked is the one that fails."""
    yield standing_house
    if not standing_house.plane.ready():
        standing_house.plane.start_api()
    for each in standing_house.schedulers:
        if each.ended():
            standing_house.again(each)
    until(lambda: standing_house.rig.all_ready([BIG]), "the node ready")
    standing_house.rig.forget_users()
    until(standing_house.rig.idle, "every GPU free again")
