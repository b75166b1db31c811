"""Fetching a result: streamed into memory while small and into a temporary file beyond, resumed where it broke, and checked
against its digest."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from typing import IO

import httpx

from gridweave.errors import Unavailable
from gridweave.payloads import Progress
from gridweave.transport import BrokenStreamError, Patience, Transport

_IN_MEMORY = 8 * 1024 * 1024
_CHUNK = 1024 * 1024


class Download:
    """A result as it is stored. raised: it holds an exception. Close it when it is read."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - closed by close()
        self.raised = False
        self.size = 0
        self.etag = ""
        self._hash = hashlib.sha256()

    def restart(self) -> None:
        """Forget what came so far."""
        self.file.seek(0)
        self.file.truncate()
        self.size, self._hash = 0, hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def damaged(self) -> bool:
        """Whether the bytes are not those that the gateway named."""
        return len(self.etag) == 64 and self._hash.hexdigest() != self.etag

    def chunks(self) -> Iterator[bytes]:
        self.file.seek(0)
        while piece := self.file.read(_CHUNK):
            yield piece

    def close(self) -> None:
        self.file.close()


def fetch(transport: Transport, path: str, wait_s: float, progress: Progress | None = None) -> Download | None:
    """The result at that path, None if the job has not ended within wait_s seconds. progress: told the bytes so far, and all of
    them (0 if that is not known), whenever some have come.

    Raises Refused (kind "no-result" when it ended without one), Unavailable.
    """
    patience, download, damaged = Patience(transport.retry_for), Download(), 0
    try:
        while True:
            headers = {"Accept-Encoding": "identity"}
            if download.size:
                headers |= {"Range": f"bytes={download.size}-", "If-Range": f'"{download.etag}"'}
            try:
                with transport.stream(path, {"wait": int(wait_s)}, headers, wait_s + 60) as response:
                    if response.status_code == 202:
                        download.close()
                        return None
                    _receive(response, download, patience, progress)
            except BrokenStreamError as broken:
                patience.pause(broken.why, broken.at_most_s)
                continue
            if not download.damaged():
                return download
            damaged += 1
            if damaged > 2:
                raise Unavailable("The result arrived damaged three times: its bytes do not match their digest.")
            download.restart()
    except BaseException:
        download.close()
        raise


def _receive(response: httpx.Response, download: Download, patience: Patience, progress: Progress | None) -> None:
    if response.status_code != 206:
        download.restart()
    download.etag = response.headers.get("etag", "").removeprefix("W/").strip('"')
    download.raised = response.headers.get("x-gridweave-outcome") == "raised"
    length = response.headers.get("content-length", "")
    total = download.size + int(length) if length.isdigit() else 0
    for piece in response.iter_raw():
        download.write(piece)
        patience.succeeded()
        if progress is not None:
            progress(download.size, total)
