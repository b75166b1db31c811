"""The API's own papers: the front page, the OpenAPI document, and the page that shows it."""

from __future__ import annotations

import falcon
import falcon.asgi
import msgspec
from attrs import frozen

from runtimes.http import docs_page, front_page, openapi


@frozen
class Document:
    """The same bytes for every request: made once."""

    data: bytes

    @staticmethod
    def of(version: str) -> Document:
        return Document(msgspec.json.encode(openapi.document(version)))

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.data = self.data


@frozen
class Front:
    """url: of this gateway as its operator has set it; "": as the reader has found it."""

    url: str

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = falcon.MEDIA_HTML
        resp.set_header("Content-Security-Policy", front_page.POLICY)
        resp.data = front_page.page(self.url or req.prefix).encode()


@frozen
class Docs:
    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = falcon.MEDIA_HTML
        resp.set_header("Content-Security-Policy", docs_page.POLICY)
        resp.data = docs_page.PAGE.encode()
