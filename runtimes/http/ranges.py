"""Bytes of a stored object as an answer: whole, a range of it, or "you have it already"."""

from __future__ import annotations

import falcon
import falcon.asgi

from runtimes.http import transfers
from runtimes.http.refusals import RangeNotSatisfiable
from runtimes.http.services import Services


async def send(services: Services, req: falcon.asgi.Request, resp: falcon.asgi.Response, key: str, size: int, sha256: str) -> None:
    """Streams from the blob store. Raises NotFound if the object is gone, RangeNotSatisfiable past its end."""
    resp.content_type = "application/octet-stream"
    resp.set_header("Accept-Ranges", "bytes")
    if sha256:
        resp.set_header("ETag", f'"{sha256}"')
        if sha256 in _etags(req.get_header("If-None-Match")):
            resp.status = falcon.HTTP_304
            return
    start, end = _range(req, size, sha256)
    if (start, end) != (0, size):
        resp.status = falcon.HTTP_206
        resp.set_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
    data = await services.pools.blobs.run(services.house.blobs.get, key, start, end - start)
    resp.content_length = end - start
    resp.stream = transfers.drain(services.pools.blobs, data)


def _etags(header: str | None) -> set[str]:
    return {part.strip().removeprefix("W/").strip('"') for part in (header or "").split(",")}


def _range(req: falcon.asgi.Request, size: int, sha256: str) -> tuple[int, int]:
    """First byte and the one after the last. More than one range, or an If-Range that fails: the whole."""
    header = req.get_header("Range") or ""
    condition = req.get_header("If-Range")
    unit, _, spec = header.partition("=")
    if unit.strip().lower() != "bytes" or "," in spec or (condition is not None and sha256 not in _etags(condition)):
        return 0, size
    first, dash, last = (part.strip() for part in spec.partition("-"))
    if not dash or not all(part.isascii() and (part.isdigit() or not part) and len(part) < 19 for part in (first, last)):
        return 0, size
    if first:
        start, end = int(first), min(int(last) + 1 if last else size, size)
    elif last:
        start, end = max(size - int(last), 0), size
    else:
        return 0, size
    if start >= size or end <= start:
        raise RangeNotSatisfiable(f"The range lies outside of {size} bytes.", "Range", "Ask for a range within.", size, header[:100])
    return start, end
