"""Models: what a user has pushed. Bytes go part by part to granted URLs, and the manifest last."""

from __future__ import annotations

import falcon
import falcon.asgi
from attrs import frozen

from core import models
from core.callers import Caller
from core.models import Model, ModelFile, part_key
from ports.blobs import Grant
from ports.workloads import BlobRef
from runtimes.http import transfers
from runtimes.http.bodies import fields, strict, views
from runtimes.http.identity import caller_of
from runtimes.http.queries import Query, model_name
from runtimes.http.routes.uploads import UploadBody, reachable
from runtimes.http.services import Services

_MAX_PART, _MAX_MODEL = 4096, 16 * 1024 * 1024


@frozen
class FileBody:
    """path: below the model's folder. sha256, size: of the whole file; parts: in their order."""

    path: fields.FilePath
    size: fields.FileSize
    sha256: fields.Sha256
    parts: tuple[UploadBody, ...]


@frozen
class ModelBody:
    """All files of the model."""

    files: tuple[FileBody, ...]


@frozen
class Models:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = caller_of(req)
        Query(req, ())
        found = await self.services.pools.blobs.run(self._all, caller)
        resp.data = views.encode(views.Models([_view(model) for model in found]))

    def _all(self, caller: Caller) -> list[Model]:
        return list(models.listing(self.services.house, caller))


@frozen
class One:
    services: Services

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        caller, checked = caller_of(req), model_name(name)
        body = strict.structure(strict.parse(await transfers.json_body(req, _MAX_MODEL)), ModelBody)
        files = [
            ModelFile(file.path, file.size, file.sha256, tuple(BlobRef(part.sha256, part.size) for part in file.parts))
            for file in body.files
        ]
        model = await self.services.pools.writes.run(models.publish, self.services.house, caller, checked, files)
        resp.data = views.encode(_view(model))

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        caller, checked = caller_of(req), model_name(name)
        await self.services.pools.writes.run(models.remove, self.services.house, caller, checked)
        resp.status = falcon.HTTP_204


@frozen
class Parts:
    services: Services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        """200 if the part is there; otherwise 201 with where to put it."""
        caller, checked = caller_of(req), model_name(name)
        body = strict.structure(strict.parse(await transfers.json_body(req, _MAX_PART)), UploadBody)
        part = BlobRef(body.sha256, body.size)
        if not await self.services.pools.blobs.run(models.wanted, self.services.house, caller, checked, part):
            resp.data = views.encode(views.UploadView(True))
            return
        granted = await self.services.pools.blobs.run(self._grant, checked, part)
        resp.status = falcon.HTTP_201
        url = reachable(self.services, granted.url.replace("{name}", body.sha256))
        resp.data = views.encode(views.UploadView(False, granted.method, url, {}, views.instant(granted.expires)))

    def _grant(self, name: str, part: BlobRef) -> Grant:
        house = self.services.house
        make = self.services.upload_grants or house.blobs.grant_write
        prefix = part_key(name, part.sha256).rpartition("/")[0] + "/"
        return make(prefix, part.size, house.clock.now() + house.terms.grant_life)


def _view(model: Model) -> views.ModelView:
    return views.ModelView(model.name, model.owner, model.size, len(model.files), views.instant(model.created_at))
