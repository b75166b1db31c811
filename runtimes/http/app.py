"""The ASGI application: routes, middleware, and the handler that makes problems of errors."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import falcon.asgi

from ports.errors import Unavailable
from ports.units import Span
from runtimes.http import problems
from runtimes.http.edge import Edge
from runtimes.http.followers import Feeds
from runtimes.http.identity import Gate, Identify
from runtimes.http.metrics import FleetCollector, Latency
from runtimes.http.routes import advice, blobs, health, insight, jobs, logs, models, money, nodes, papers, prices, results, uploads
from runtimes.http.services import Services

_EXPOSED = [
    "Accept-Ranges", "Content-Range", "ETag", "Location", "Retry-After", "X-Gridweave-Cursor",
    "X-Gridweave-Log-Complete", "X-Gridweave-Log-Next", "X-Gridweave-Outcome",
]  # fmt: skip


def create_app(services: Services) -> Edge:
    """Nothing is started here: the services' threads begin and end with the ASGI lifespan."""
    origins = services.settings.cors_origins
    layers: list[Any] = [
        Latency(services.registry),
        falcon.CORSMiddleware("*" if origins == ("*",) else list(origins), expose_headers=_EXPOSED),
        Identify(Gate.of(services.settings)),
        Lifespan(services),
    ]
    app = falcon.asgi.App(middleware=layers)
    app.req_options.strip_url_path_trailing_slash = False
    app.resp_options.default_media_type = falcon.MEDIA_JSON
    for kind in (Exception, falcon.HTTPError):
        app.add_error_handler(kind, problems.handle)
    _add_routes(app, services)
    services.registry.register(FleetCollector(services.watch, services.trouble))
    return Edge(app, services.stop)


def _add_routes(app: falcon.asgi.App[Any, Any], services: Services) -> None:
    feeds = Feeds(services)
    for path, resource in {
        "/v1/uploads": uploads.Uploads(services),
        "/v1/blobs/{key:path}": blobs.Blobs(services),
        "/v1/jobs": jobs.Listing(services),
        "/v1/jobs/submit": jobs.Submit(services),
        "/v1/jobs/estimate": jobs.Estimate(services),
        "/v1/jobs/{id}/status": jobs.Status(services),
        "/v1/jobs/{id}/cancel": jobs.Cancel(services),
        "/v1/jobs/{id}/logs": logs.Logs(services, feeds),
        "/v1/jobs/{id}/result": results.Result(services),
        "/v1/models": models.Models(services),
        "/v1/models/{name}": models.One(services),
        "/v1/models/{name}/parts": models.Parts(services),
        "/v1/resources": nodes.Resources(services),
        "/v1/admin/nodes": nodes.AdminNodes(services),
        "/v1/admin/gpu-pricing": prices.GpuPricing(services),
        "/v1/admin/revenue-splits": prices.Splits(services),
        "/v1/admin/health": insight.AdminHealth(services),
        "/v1/provider/status": insight.ProviderStatus(services),
        "/v1/provider/pricing": prices.ProviderPricing(services),
        "/v1/admin/advice": advice.Advice(services),
        "/v1/usage": money.Usage(services),
        "/v1/statement": money.Statements(services),
        "/v1/account": money.Account(services),
        "/v1/account/budget": money.Budget(services),
        "/healthz": health.Health(services),
        "/readyz": health.Ready(services),
        "/version": health.Version(services),
        "/metrics": health.Metrics(services),
        "/": papers.Front(services.settings.gateway_url),
        "/openapi.json": papers.Document.of(services.settings.server_version),
        "/docs": papers.Docs(),
    }.items():
        app.add_route(path, resource)


class Lifespan:
    """Falcon middleware: begins and ends what the services run beside requests."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def process_startup(self, scope: dict[str, Any], event: dict[str, Any]) -> None:
        """The live copy is read once before the first request, unless the store does not answer."""
        services, cursor = self._services, ""
        with contextlib.suppress(Unavailable):
            cursor = await services.pools.store.run(services.watch.round, "", Span(0))
        services.watch.start(asyncio.get_running_loop(), cursor)
        services.on_start()

    async def process_shutdown(self, scope: dict[str, Any], event: dict[str, Any]) -> None:
        services = self._services
        services.stop()
        await asyncio.to_thread(services.on_stop)
        await asyncio.to_thread(services.watch.stop)
        await services.tails.close()
