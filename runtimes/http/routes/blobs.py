"""Blobs by grant: the URL itself is the permission, for one object or prefix, a size and a time."""

from __future__ import annotations

from collections.abc import Iterator

import falcon
import falcon.asgi
from attrs import frozen

from core.models import is_part
from ports.blobs import BlobInfo
from ports.errors import Invalid, NotFound
from runtimes.http import ranges, transfers
from runtimes.http.bodies import views
from runtimes.http.services import Permit, Services


@frozen
class Stored:
    """What was stored."""

    size: int
    sha256: str


@frozen
class Blobs:
    services: Services

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, key: str) -> None:
        """Stores all of the body or nothing; uploads and parts of models only if their digest is the object's name."""
        permit = self._permit(req, "PUT")
        transfers.check_encoding(req)
        hashing = transfers.Hashing()

        def put(data: Iterator[bytes]) -> BlobInfo:
            return self.services.house.blobs.put(permit.key, _verified(hashing, data, permit.key))

        source = transfers.blocks(req, permit.max_size, self.services.settings.upload_silence_seconds)
        await transfers.feed(source, self.services.pools.uploads, put, self.services.spool)
        resp.status = falcon.HTTP_201
        resp.data = views.encode(Stored(hashing.size, hashing.sha256))

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, key: str) -> None:
        permit = self._permit(req, "GET")
        info = await self.services.pools.blobs.run(self.services.house.blobs.stat, permit.key)
        if info is None:
            raise NotFound("There is no such object.", "key", "It may have expired; ask for a new grant.")
        await ranges.send(self.services, req, resp, info.key, info.size, info.sha256)

    def _permit(self, req: falcon.asgi.Request, method: str) -> Permit:
        check = self.services.check_grant
        if check is None:
            raise NotFound("Blobs are not served here.", "path", "Use the URL of the grant as it was given.")
        return check(method, req.path, req.query_string, self.services.house.clock.now())


def _verified(hashing: transfers.Hashing, data: Iterator[bytes], key: str) -> Iterator[bytes]:
    """Raises Invalid after the last block if an upload is not what its name says; the store then keeps nothing."""
    yield from hashing.through(data)
    name = key.rpartition("/")[2]
    if (key.startswith("uploads/") or is_part(key)) and hashing.sha256 != name:
        message = f"The body's SHA-256 is {hashing.sha256}, not {name}."
        raise Invalid(message, "sha256", "Send the very bytes that were hashed.", hashing.sha256)
