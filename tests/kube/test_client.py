"""How the Kubernetes API is found: in a pod by its ServiceAccount, else by kubeconfig."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api
from kubernetes.config import incluster_config, kube_config

from adapters.k8s import client as connections
from adapters.k8s.client import connect
from adapters.k8s.workloads import KubeWorkloads
from ports.errors import Refused, Unavailable
from tests.contract.samples import a_job
from tests.kube.plane import MANIFESTS, Plane


@pytest.fixture
def pod(plane: Plane, core_api: CoreV1Api, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the kubelet mounts into a pod of the gateway, and the variables that it sets; gives the mounted folder."""
    assert plane.kubectl("apply", "-f", str(MANIFESTS / "rbac.yaml"), namespace=namespace).returncode == 0
    request = {"spec": {"audiences": [], "expirationSeconds": 3600}}
    token = core_api.create_namespaced_service_account_token("gridweave-gateway", namespace, request).status.token
    (tmp_path / "token").write_text(token)
    (tmp_path / "namespace").write_text(namespace)
    shutil.copy(plane.authority, tmp_path / "ca.crt")
    monkeypatch.setattr(connections, "_ACCOUNT", tmp_path)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(plane.api_port))
    return tmp_path


def test_a_pod_uses_its_own_account_in_its_own_namespace(pod: Path, namespace: str) -> None:
    """Token, certificates and namespace are those that Kubernetes mounts; nothing else is set."""
    with closing(connect()) as client, closing(KubeWorkloads(client)) as store:
        assert namespace == client.namespace
        made = store.create(a_job("job-1"))
        assert made == store.get("job-1")


def test_a_pods_token_is_read_again_when_it_was_changed(pod: Path) -> None:
    """The kubelet renews it every hour; a process that kept the first one would be locked out."""
    with closing(connect()) as client, closing(KubeWorkloads(client)) as store:
        store.create(a_job("job-1"))
        good = (pod / "token").read_text()
        refresh(client, pod, "nonsense")
        with pytest.raises(Unavailable, match="Unauthorized"):
            store.get("job-1")
        refresh(client, pod, good)
        assert store.get("job-1") is not None


def refresh(client: connections.KubeClient, pod: Path, token: str) -> None:
    """Another token is mounted, and the hook of the library, which asks the file again after a minute, is due."""
    (pod / "token").write_text(token)
    hook = client.api.configuration.refresh_api_key_hook
    assert hook is not None
    loader = hook.__closure__[0].cell_contents
    loader.token_expires_at = loader.token_expires_at.replace(year=2000)


def test_without_certificates_the_account_is_refused_with_a_remedy(pod: Path) -> None:
    """And not by a stack trace of a library."""
    (pod / "ca.crt").unlink()
    with pytest.raises(Refused, match="ServiceAccount"):
        connect()


def test_a_kubeconfig_counts_where_there_is_no_pod(admin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its context gives the namespace; one that is given counts for more."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(admin))  # the library reads KUBECONFIG when it is imported
    for wanted, expected in (("", "default"), ("mine", "mine")):
        with closing(connect(wanted)) as client:
            assert expected == client.namespace


def test_without_any_configuration_it_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(Refused, match="Kubernetes configuration") as caught:
        connect()
    assert "KUBECONFIG" in caught.value.remedy
