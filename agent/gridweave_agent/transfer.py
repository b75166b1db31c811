"""Bytes by grant: one download or upload over HTTP, streamed, verified, and never naming a URL in an error.

A grant's URL is a permission; errors say the object and what the store answered.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import random
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from gridweave_agent.protocol import Grant

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds without a byte
_UNSIZED = 1 << 40
DIGEST_FIELD = "x-amz-meta-sha256"  # of a form: S3 keeps it with the object


class TransferError(Exception):
    """It did not work. again: whether a later try may. wait_ms: how long the store asked to wait."""

    def __init__(self, text: str, *, again: bool) -> None:
        super().__init__(text)
        self.again = again


def backoff_s(failures: int, first_ms: int, longest_ms: int = 60_000) -> float:
    """Seconds to pause after so many failures in a row: doubling, with jitter, so that nodes do not come back together."""
    pause: int = min(longest_ms, first_ms << min(failures, 20))
    return pause / 1000 * random.uniform(0.5, 1)  # noqa: S311  jitter


def download(grant: Grant, name: str, path: str, stopped: Callable[[], bool]) -> None:
    """Fetch an input into `path`. Raises TransferError; also when its digest or size is not what the grant says."""
    limit = grant.size or grant.max_size or _UNSIZED
    digest, size = hashlib.sha256(), 0
    with _opened(urllib.request.Request(grant.url), f"input {name}") as answer, open(path, "wb") as file:  # noqa: S310  http(s) only
        try:
            while block := answer.read(_BLOCK):
                if stopped():
                    raise TransferError(f"input {name}: given up", again=False)
                size += len(block)
                if size > limit:
                    raise TransferError(f"input {name}: more than the {limit} bytes it should have", again=False)
                digest.update(block)
                file.write(block)
        except (OSError, http.client.HTTPException) as error:
            raise TransferError(f"input {name}: {error}", again=True) from error
    if grant.sha256 and digest.hexdigest() != grant.sha256:
        raise TransferError(f"input {name}: its {size} bytes have another digest than they should", again=size < limit)


def download_until(
    grant: Callable[[], Grant], name: str, path: str, deadline: float, stopped: Callable[[], bool], say: Callable[[str], None]
) -> None:
    """The same, tried again until `deadline` (of the monotonic clock, in seconds).

    grant: the newest one; asked before each try, and one that came meanwhile is tried whatever the older one's failure was.
    say: is told why it does not work now, "" once it does.
    """
    failures = 0
    while True:
        used = grant()
        try:
            download(used, name, path, stopped)
        except TransferError as error:
            say(str(error))
            renewed = grant() != used
            pause = 0.0 if renewed else backoff_s(failures, 100, 5_000)
            if not (error.again or renewed) or stopped() or time.monotonic() + pause > deadline:
                raise
            failures += 1
            time.sleep(pause)
        else:
            say("")
            return


def upload(grant: Grant, name: str, path: str, start: int = 0, end: int | None = None, sha256: str = "") -> None:
    """Store bytes start..end of the file as `name` below the grant's prefix. sha256: of them, where it is known already.

    Raises TransferError.
    """
    size = (os.path.getsize(path) if end is None else end) - start
    if grant.max_size and size > grant.max_size:
        raise TransferError(f"{name}: {size} bytes, and its grant allows {grant.max_size}", again=False)
    with open(path, "rb") as file:
        file.seek(start)
        body: io.RawIOBase = _Slice(file, size)
        if grant.method == "PUT":
            request = urllib.request.Request(grant.url.replace("{name}", name), method="PUT")  # noqa: S310  http(s) only
            request.add_header("Content-Type", "application/octet-stream")
            for key, value in grant.fields.items():
                request.add_header(key, value)
        else:
            boundary = secrets.token_hex(16)
            digest = sha256 or (_digest(file, start, size) if DIGEST_FIELD in grant.fields else "")
            head, foot = _form(grant, name, boundary, digest)
            size += len(head) + len(foot)
            body = _Joined(head, body, foot)
            request = urllib.request.Request(grant.url, method="POST")  # noqa: S310  http(s) only
            request.add_header("Content-Type", f"multipart/form-data; boundary={boundary}")
        request.data = body
        request.add_header("Content-Length", str(size))  # after the data, which drops it
        with _opened(request, name) as answer:
            answer.read(_BLOCK)


def _digest(file: BinaryIO, start: int, size: int) -> str:
    """SHA-256 of those bytes; the file is back at the first of them."""
    digest, left = hashlib.sha256(), size
    while left and (block := file.read(min(left, _BLOCK))):
        digest.update(block)
        left -= len(block)
    file.seek(start)
    return digest.hexdigest()


def _form(grant: Grant, name: str, boundary: str, sha256: str) -> tuple[bytes, bytes]:
    """What goes before and after the file in an S3 form upload; the file comes last. A grant that has a place for the digest gets it."""
    fields = {**grant.fields, "key": grant.prefix + name}
    if DIGEST_FIELD in fields:
        fields[DIGEST_FIELD] = sha256
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in fields.items()]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name.rpartition("/")[2]}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()


def _opened(request: urllib.request.Request, what: str) -> http.client.HTTPResponse:
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)  # noqa: S310  http(s) only
    except urllib.error.HTTPError as error:
        with error:
            said = ""
            with suppress(OSError, http.client.HTTPException):
                said = _told(error.read(2000).decode(errors="replace"))
        raise TransferError(
            f"{what}: the store answered {error.code} {said}".strip(), again=error.code >= 500 or error.code in (403, 408, 429)
        ) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise TransferError(f"{what}: the store can't be reached: {reason}", again=True) from None
    return answer


def _told(body: str) -> str:
    """What the store says is wrong. Of S3's XML only the code: the rest may quote what was signed."""
    code = re.search(r"<Code>([A-Za-z0-9.]{1,80})</Code>", body)
    return code[1] if code else body[:300].strip() if "<" not in body[:300] else ""


class _Slice(io.RawIOBase):
    """The next `size` bytes of a file, and no more."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        self._left -= len(data)
        return data


class _Joined(io.RawIOBase):
    """Head, a stream, foot: one after the other."""

    def __init__(self, head: bytes, body: io.RawIOBase, foot: bytes) -> None:
        self._parts: list[io.BytesIO | io.RawIOBase] = [io.BytesIO(head), body, io.BytesIO(foot)]

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while self._parts:
            if data := self._parts[0].read(size):
                return data
            self._parts.pop(0)
        return b""
