"""The control plane that other tests use is a real one."""

from __future__ import annotations

import json

from tests.kube.plane import Plane


def test_a_real_api_server_answers(plane: Plane, namespace: str) -> None:
    """What is claimed of Kubernetes below is claimed of this server."""
    found = plane.kubectl("version", "-o", "json")
    assert 0 == found.returncode, found.stderr
    assert json.loads(found.stdout)["serverVersion"]["gitVersion"].startswith("v1.")
    assert "Active" == plane.kubectl("get", "namespace", namespace, "-o", "jsonpath={.status.phase}").stdout


def test_what_is_in_one_namespace_is_not_in_another(plane: Plane, namespace: str) -> None:
    """Tests share the plane, and must not see one another."""
    made = plane.kubectl("create", "configmap", "mine", namespace=namespace)
    assert 0 == made.returncode, made.stderr
    assert "" == plane.kubectl("get", "configmap", "mine", "--ignore-not-found", "-o", "name").stdout
