"""Grants of the folder store: a URL of the gateway that carries its own permission.

    <base url>/v1/blobs/<key>?method=GET&expires=<ms>&sig=<hex>
    <base url>/v1/blobs/<prefix>{name}?method=PUT&expires=<ms>&max=<bytes>&prefix=<prefix>&sig=<hex>

The signature is an HMAC over the method, the key or prefix, the end and the size, so none of them can be
stretched. Opening one is pure: whoever serves the URL calls `open_grant` and then reads or writes the blob.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import parse_qsl

from attrs import frozen

from ports.blob_keys import checked_folder, checked_key, is_key
from ports.blobs import Grant
from ports.errors import Forbidden, Invalid
from ports.units import Instant

PATH = "/v1/blobs/"
_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_REMEDY = "Ask for a new grant."


@frozen
class GrantedRead:
    """Permission to read the blob at `key`."""

    key: str


@frozen
class GrantedWrite:
    """Permission to write the blob at `key`, of at most `max_size` bytes."""

    key: str
    max_size: int


def read_grant(secret: bytes, base_url: str, key: str, expires: Instant) -> Grant:
    """Raises Invalid for a key that is none."""
    sig = _signature(secret, "GET", checked_key(key), expires.ms, 0)
    return Grant("GET", f"{base_url}{PATH}{key}?method=GET&expires={expires.ms}&sig={sig}", key, 0, expires)


def write_grant(secret: bytes, base_url: str, prefix: str, max_size: int, expires: Instant) -> Grant:
    """The URL holds the literal `{name}`, for the object's name below the prefix. Raises Invalid."""
    if max_size < 0:
        raise Invalid(f"max_size is {max_size}.", "max_size", "Give a number of bytes.", str(max_size))
    sig = _signature(secret, "PUT", checked_folder(prefix), expires.ms, max_size)
    query = f"method=PUT&expires={expires.ms}&max={max_size}&prefix={prefix}&sig={sig}"
    return Grant("PUT", f"{base_url}{PATH}{prefix}{{name}}?{query}", prefix, max_size, expires)


def open_grant(secret: bytes, method: str, path: str, query: str, now: Instant) -> GrantedRead | GrantedWrite:
    """What a request with a granted URL may do.

    method: of the request; HEAD is as GET. path: decoded, from `/v1/blobs/` on. query: raw, without "?".
    Raises Forbidden for whatever was not granted, or not for now.
    """
    key = path.removeprefix(PATH)
    if key == path or not is_key(key):
        raise Forbidden("This path is no blob's.", "path", _REMEDY)
    given = _fields(query)
    wanted = "GET" if method == "HEAD" else method
    names = {"GET": {"method", "expires", "sig"}, "PUT": {"method", "expires", "max", "prefix", "sig"}}.get(wanted)
    if given is None or names != given.keys() or given["method"] != wanted:
        raise Forbidden(f"This URL is no grant for {method:.10}.", "query", _REMEDY)
    expires, size, scope = given["expires"], given.get("max", "0"), given.get("prefix", key)
    if not _NUMBER.fullmatch(expires) or not _NUMBER.fullmatch(size):
        raise Forbidden("This grant is not as it was given.", "query", _REMEDY)
    if not hmac.compare_digest(
        _signature(secret, wanted, scope, int(expires), int(size)).encode(), given["sig"].encode("utf-8", "replace")
    ):
        raise Forbidden("This grant is not as it was given.", "sig", _REMEDY)
    if now.ms >= int(expires):
        raise Forbidden("This grant has expired.", "expires", _REMEDY)
    if wanted == "GET":
        return GrantedRead(key)
    if not key.startswith(scope):
        raise Forbidden("This grant is for another folder.", "path", _REMEDY)
    return GrantedWrite(key, int(size))


def _fields(query: str) -> dict[str, str] | None:
    """Each field once; None for anything else."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=8)
    except ValueError:
        return None
    return dict(pairs) if len(dict(pairs)) == len(pairs) else None


def _signature(secret: bytes, method: str, scope: str, expires: int, size: int) -> str:
    text = "\n".join(("gridweave blob grant 1", method, scope, str(expires), str(size)))
    return hmac.new(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
