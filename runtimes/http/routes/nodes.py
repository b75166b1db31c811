"""Nodes and their GPUs: the fleet for everybody, and what operators declare of it."""

from __future__ import annotations

import falcon.asgi
from attrs import frozen

from core.inventory import FleetGpu, FleetNode, fold
from core.nodes import NodeChange, declare
from ports.nodes import ORG, NodeRecord
from runtimes.http import transfers
from runtimes.http.bodies import fields, strict, views
from runtimes.http.identity import admin_of, caller_of
from runtimes.http.queries import Query
from runtimes.http.services import Services

_MAX_BODY = 4096


@frozen
class NodeBody:
    """What an admin declares of a node; what is left out stays. gone: the machine will not come back."""

    name: fields.NodeName
    owner: fields.NodeOwner | None = None
    drain: bool | None = None
    gone: bool | None = None


@frozen
class Resources:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Every node and GPU, in one consistent snapshot."""
        caller_of(req)
        Query(req, ())
        resp.data = views.encode(views.Resources([node_view(node) for node in self.services.watch.fleet().nodes]))


@frozen
class AdminNodes:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        admin_of(req)
        Query(req, ())
        records = await self.services.pools.store.run(self.services.house.nodes.list)
        resp.data = views.encode(views.AdminNodes([self._view(record) for record in records]))

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        admin_of(req)
        body = strict.structure(strict.parse(await transfers.json_body(req, _MAX_BODY)), NodeBody)
        change = NodeChange(body.name, body.owner, body.drain, body.gone)
        record = await self.services.pools.writes.run(declare, self.services.house, change)
        resp.data = views.encode(self._view(record))

    def _view(self, record: NodeRecord) -> views.AdminNodeView:
        (node,) = fold([record], self.services.watch.fleet().live).nodes
        seen = node_view(node)
        spec = views.NodeSpecView(record.spec.owner, record.spec.drain, record.spec.gone)
        return views.AdminNodeView(seen.name, seen.owner, seen.state, seen.reason, seen.drain, seen.gpus, spec, record.version)


def node_view(node: FleetNode) -> views.NodeView:
    record = node.record
    owner = record.status.owner or record.spec.owner
    gpus = [_gpu_view(gpu, owner, node.usable) for gpu in node.gpus]
    return views.NodeView(record.name, owner, record.status.state.value, record.status.reason, record.spec.drain, gpus)


def _gpu_view(gpu: FleetGpu, owner: str, usable: bool) -> views.GpuView:
    about = gpu.gpu
    return views.GpuView(
        index=about.index,
        model=about.model,
        vendor=about.vendor,
        uuid=about.uuid,
        total_mib=about.total.n,
        free_mib=gpu.free.n,
        booked_mib=gpu.booked.n,
        quarantined_mib=gpu.quarantined.n,
        usable=usable,
        plans=["free", "paid"] if owner == ORG else ["paid"] if owner else [],
    )
