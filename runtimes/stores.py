"""Where workloads, node records, tariffs and the epoch live, and who schedules: decided by STORE."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from attrs import evolve, frozen

from adapters.local.randomness import SystemRandomness
from adapters.remote.leadership import RemoteLeadership
from adapters.remote.line import Line
from adapters.remote.stores import RemoteEpochs, RemoteNodes, RemoteTariffs, RemoteWorkloads
from adapters.sqlite.epochs import SqliteEpochs
from adapters.sqlite.leadership import FileLeadership
from adapters.sqlite.nodes import SqliteNodes
from adapters.sqlite.schema import open_gridweave, prepare_gridweave
from adapters.sqlite.tariffs import SqliteTariffs
from adapters.sqlite.workloads import SqliteWorkloads
from ports.leadership import Epochs, Leadership
from ports.nodes import NodeRecords
from ports.tariffs import Tariffs
from ports.workloads import Workloads
from runtimes.failpoints import Failpoints
from runtimes.settings import Settings, Store


@frozen
class Stores:
    """The ports that one store serves."""

    workloads: Workloads
    nodes: NodeRecords
    tariffs: Tariffs
    epochs: Epochs
    leadership: Leadership


def prepare_stores(settings: Settings, folder: Path, alone: bool) -> None:
    """Once, before the first process serves. alone: whether no other gateway is on that state folder. Raises Refused, Unavailable."""
    if settings.store is Store.SQLITE:
        prepare_gridweave(folder, alone)


def open_stores(settings: Settings, folder: Path, opened: ExitStack, tells: bool = False) -> Stores:
    """What is opened is closed by `opened`. tells: whether events of Kubernetes are written. Raises Refused, Unavailable."""
    if settings.store is Store.KUBERNETES:
        return _on_kubernetes(settings, opened, tells)
    if settings.store is Store.PROXIED:
        return _by_control_service(settings, opened)
    database = open_gridweave(folder)
    opened.callback(database.close)
    workloads = SqliteWorkloads(database)
    opened.callback(workloads.close)
    leadership = FileLeadership(folder / "scheduler.lock", f"{os.getpid()}-{SystemRandomness().token()[:8]}")
    return Stores(workloads, SqliteNodes(database), SqliteTariffs(database), SqliteEpochs(database), leadership)


def _on_kubernetes(settings: Settings, opened: ExitStack, tells: bool) -> Stores:
    from adapters.k8s.client import connect  # half a second to import: only where it is used
    from adapters.k8s.epochs import KubeEpochs
    from adapters.k8s.events import KubeEvents
    from adapters.k8s.leadership import LeaseLeadership, Pace
    from adapters.k8s.nodes import KubeNodes
    from adapters.k8s.tariffs import KubeTariffs
    from adapters.k8s.workloads import KubeWorkloads

    client = connect(settings.kuberay_namespace)
    opened.callback(client.close)
    points, identity = Failpoints.read(os.environ), _identity()
    if points is not None:
        client = evolve(client, passing=points.wrapped)
    events = KubeEvents(client, identity)
    opened.callback(events.close)
    workloads = KubeWorkloads(client, tell=events.tell if tells else None)
    opened.callback(workloads.close)
    leadership = LeaseLeadership(client, identity, pace=Pace.of(settings.lease))
    return Stores(workloads, KubeNodes(client), KubeTariffs(client), KubeEpochs(client), leadership)


def _by_control_service(settings: Settings, opened: ExitStack) -> Stores:
    line = Line(settings.kuberay_service_url, settings.admin_token.get_secret_value(), ours=True)
    opened.callback(line.close)
    leadership = RemoteLeadership(line, _identity(), settings.lease)
    return Stores(RemoteWorkloads(line), RemoteNodes(line), RemoteTariffs(line), RemoteEpochs(line), leadership)


def _identity() -> str:
    """Fresh in each process."""
    return f"{socket.gethostname()}-{os.getpid()}-{SystemRandomness().token()[:8]}"
