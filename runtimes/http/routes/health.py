"""Health, readiness, versions and metrics: for probes and scrapers, without identity and without I/O."""

from __future__ import annotations

import falcon
import falcon.asgi
from attrs import frozen
from prometheus_client import generate_latest

from runtimes.http.bodies import views
from runtimes.http.services import Services


@frozen
class Health:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """200 as long as this process answers, whatever else is down."""
        resp.data = views.encode(views.Health("ok", self.services.settings.server_version))


@frozen
class Ready:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """503 while new work would not run, with the reasons."""
        reasons = self.services.reasons()
        resp.status = falcon.HTTP_503 if reasons else falcon.HTTP_200
        if reasons:
            resp.set_header("Retry-After", "5")
        resp.data = views.encode(views.Readiness(not reasons, reasons))


@frozen
class Version:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        server = self.services.settings.server_version
        terms, known = self.services.house.terms, self.services.versions
        python, cloudpickle = self.services.watch.versions()
        python, cloudpickle = python or terms.python, cloudpickle or terms.cloudpickle
        oldest = f"{server.split('.')[0]}.0.0"
        resp.data = views.encode(views.Versions(server, oldest, python, cloudpickle, known.get("ray", "")))


@frozen
class Metrics:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "text/plain; version=0.0.4; charset=utf-8"
        resp.data = generate_latest(self.services.registry)
