"""The connection to the Kubernetes API: in a pod by its ServiceAccount, else by kubeconfig.

Nothing is asked when it is made. Connections are pooled, and no request is repeated by the library below: whether
a write that got no answer took place is for the caller to find out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from attrs import frozen
from kubernetes import config
from kubernetes.client import ApiClient, Configuration, CoordinationV1Api, CustomObjectsApi, EventsV1Api
from kubernetes.config.config_exception import ConfigException

from ports.errors import Refused

GROUP, VERSION = "gridweave.io", "v1"
API_VERSION = f"{GROUP}/{VERSION}"
CONNECTIONS = 32  # kept open; a request beyond them makes one of its own
T = TypeVar("T")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@frozen
class KubeClient:
    """The API, and the namespace of our objects in it. passing: gives what its calls pass by ("kube", "lease"), for crash tests."""

    namespace: str
    api: ApiClient
    passing: Callable[[Any, str], Any] | None = None

    @property
    def custom(self) -> CustomObjectsApi:
        return self._passing(CustomObjectsApi(self.api), "kube")

    @property
    def coordination(self) -> CoordinationV1Api:
        return self._passing(CoordinationV1Api(self.api), "lease")

    def _passing(self, made: T, name: str) -> T:
        return made if self.passing is None else cast(T, self.passing(made, name))

    @property
    def events(self) -> EventsV1Api:
        return EventsV1Api(self.api)

    def close(self) -> None:
        self.api.rest_client.pool_manager.clear()


def connect(namespace: str = "", kubeconfig: str = "", context: str = "") -> KubeClient:
    """In-cluster configuration where there is one, else kubeconfig (KUBECONFIG, ~/.kube/config).

    namespace: of our objects; empty: the pod's own, or that of the context. Raises Refused if there is neither
    configuration, or one can't be read.
    """
    settings = Configuration()
    own = _in_pod(settings) if not kubeconfig and _in_cluster() else _by_file(settings, kubeconfig, context)
    settings.retries = False
    settings.connection_pool_maxsize = CONNECTIONS
    return KubeClient(namespace or own, ApiClient(settings))


def _in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (_ACCOUNT / "token").exists()


def _in_pod(settings: Configuration) -> str:
    try:
        config.load_incluster_config(client_configuration=settings)
        return (_ACCOUNT / "namespace").read_text().strip() or "default"
    except (ConfigException, OSError) as error:
        raise Refused(f"The pod's ServiceAccount can't be used: {error}", "KUBERNETES_SERVICE_HOST", "Mount its token.") from error


def _by_file(settings: Configuration, kubeconfig: str, context: str) -> str:
    remedy = "Run in a pod with a ServiceAccount, or set KUBECONFIG to a file that kubectl can use."
    try:
        config.load_kube_config(config_file=kubeconfig or None, context=context or None, client_configuration=settings)
        _, active = config.list_kube_config_contexts(config_file=kubeconfig or None)
    except (ConfigException, OSError, ValueError, TypeError) as error:
        raise Refused(f"No Kubernetes configuration can be used: {error}", "KUBECONFIG", remedy) from error
    return str((active or {}).get("context", {}).get("namespace") or "default")
