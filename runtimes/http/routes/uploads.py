"""Uploads: where a client's bytes go before a submit names them. Each user has his own, whatever the digest."""

from __future__ import annotations

from urllib.parse import urlsplit

import falcon
import falcon.asgi
from attrs import frozen

from core.names import upload_key
from core.retention import OFFERED
from ports.blobs import BlobInfo, Grant
from ports.errors import Invalid
from runtimes.http import transfers
from runtimes.http.bodies import fields, strict, views
from runtimes.http.identity import caller_of
from runtimes.http.services import Services

_MAX_BODY = 4096


@frozen
class UploadBody:
    """What is about to be uploaded."""

    sha256: fields.Sha256
    size: fields.BlobSize


@frozen
class Uploads:
    services: Services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """200 if this user's upload is there; otherwise 201 with where to put it."""
        caller = caller_of(req)
        body = strict.structure(strict.parse(await transfers.json_body(req, _MAX_BODY)), UploadBody)
        key = upload_key(caller.user, body.sha256)
        present = await self.services.pools.blobs.run(self.services.house.blobs.stat, key)
        if present is not None and self.services.house.clock.now() - present.modified < OFFERED:
            _check_size(present, body)
            resp.data = views.encode(views.UploadView(True))
            return
        granted = await self.services.pools.blobs.run(self._grant, key, body.size)
        resp.status = falcon.HTTP_201
        url = reachable(self.services, granted.url.replace("{name}", body.sha256))
        resp.data = views.encode(views.UploadView(False, granted.method, url, {}, views.instant(granted.expires)))

    def _grant(self, key: str, size: int) -> Grant:
        house = self.services.house
        prefix = key.rpartition("/")[0] + "/"
        make = self.services.upload_grants or house.blobs.grant_write
        return make(prefix, size, house.clock.now() + house.terms.grant_life)


def reachable(services: Services, url: str) -> str:
    """Relative where this gateway serves it: the client knows the way here, and nodes may know another one."""
    parts = urlsplit(url)
    if services.check_grant is None or not parts.path.startswith("/v1/blobs/"):
        return url
    return f"{parts.path}?{parts.query}"


def _check_size(present: BlobInfo, body: UploadBody) -> None:
    if present.size != body.size:
        message = f"An upload of that digest is {present.size} bytes, not {body.size}."
        raise Invalid(message, "size", "Send the size of the very bytes that were hashed.", str(body.size))
