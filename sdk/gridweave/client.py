"""The gateway's API, a method per route. Functions and the command line both go through it.

Answers are the gateway's own JSON as dicts, except where bytes stream. Every method raises Refused (NotFound for 404) for
what cannot be, and Unavailable when the gateway did not answer for `retry_for` seconds.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from gridweave.answers import facts_of
from gridweave.downloads import Download, fetch
from gridweave.estimates import Estimate
from gridweave.models import Pushing, listed, push, remove
from gridweave.options import Options
from gridweave.payloads import INLINE, Payload, Progress
from gridweave.streams import End, LogPiece, State, follow
from gridweave.transport import Transport

DEFAULT_URL = "http://127.0.0.1:8200"
_PAGE = 1024 * 1024


class Client:
    """A connection to one gateway; safe to share between threads.

    url, api_key: default to GRIDWEAVE_URL and GRIDWEAVE_API_KEY. retry_for: seconds to keep trying while the gateway does
    not answer. Raises Refused if the URL or the key cannot be used.
    """

    def __init__(self, url: str | None = None, api_key: str | None = None, *, retry_for: float = 60) -> None:
        address = url or os.environ.get("GRIDWEAVE_URL") or DEFAULT_URL
        self._transport = Transport(address, api_key or os.environ.get("GRIDWEAVE_API_KEY") or None, retry_for)

    @property
    def url(self) -> str:
        return self._transport.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._transport.close()

    # ------------------------------------------------------------ submitting

    def carry(self, payload: Payload, progress: Progress | None = None) -> dict[str, Any]:
        """What a request says of a payload: its bytes if it is small, else its digest, after uploading it if need be."""
        return payload.inline() if payload.size <= INLINE else self.upload(payload, progress)

    def upload(self, payload: Payload, progress: Progress | None = None) -> dict[str, Any]:
        """Upload unless the gateway has these bytes; gives their reference. progress: told how many have gone, and of how many."""
        grant = self._json("POST", "/v1/uploads", body=payload.reference)
        if not grant.get("present"):
            headers = {**grant.get("headers", {}), "Content-Length": str(payload.size), "Content-Type": "application/octet-stream"}
            pieces = partial(payload.chunks, progress)
            self._transport.send(grant.get("method", "PUT"), grant["url"], content=pieces, headers=headers, read_timeout=300)
        return payload.reference

    def submit(self, body: Mapping[str, Any], key: str | None = None, *, retry_for: float | None = None) -> dict[str, Any]:
        """Create a job. key: the idempotency key, a random one if None; the same key and body give the same job."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return self._json("POST", "/v1/jobs/submit", body=body, headers=headers, retry_for=retry_for)

    def estimate(self, options: Options) -> Estimate:
        """What such a job would cost and where it would be placed now."""
        return Estimate.read(self._json("POST", "/v1/jobs/estimate", body=options.ask()))

    # ------------------------------------------------------------ jobs

    def status(self, job_id: str) -> dict[str, Any]:
        return self._json("GET", _job(job_id, "status"))

    def jobs(
        self, *, phases: str = "", name: str = "", label: str = "", limit: int = 100, pages: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """The caller's jobs, newest first. phases: names joined by commas. pages: at most that many pages of `limit`."""
        for page in islice(self.job_pages(phases=phases, name=name, label=label, limit=limit), pages):
            yield from page["jobs"]

    def job_pages(self, *, phases: str = "", name: str = "", label: str = "", limit: int = 100) -> Iterator[dict[str, Any]]:
        """The same as the gateway gives them: `jobs`, and `all_users`, whether they are those of all users."""
        cursor = ""
        while True:
            params = {"phase": phases or None, "name": name or None, "label": label or None, "limit": limit, "cursor": cursor or None}
            page = self._json("GET", "/v1/jobs", params=params)
            yield page
            cursor = page.get("cursor") or ""
            if not cursor:
                return

    def cancel(self, job_id: str, *, retry_for: float | None = None) -> dict[str, Any]:
        """Ask for the job's end; it is Cancelled when its processes are gone."""
        return self._json("POST", _job(job_id, "cancel"), body={}, retry_for=retry_for)

    def log(self, job_id: str, offset: int = 0) -> Iterator[bytes]:
        """What the log has so far, in pieces."""
        while True:
            response = self._transport.send("GET", _job(job_id, "logs"), params={"offset": offset, "limit": _PAGE})
            following = int(response.headers.get("x-gridweave-log-next", offset + len(response.content)))
            if response.content:
                yield response.content
            if not response.content or following <= offset:
                return
            offset = following

    def follow(self, job_id: str, offset: int = 0) -> Iterator[LogPiece | State | End]:
        """Log and states as they happen, until the job has ended."""
        return follow(self._transport, quote(job_id, safe=""), offset)

    def result(self, job_id: str, wait_s: float = 0, progress: Progress | None = None) -> Download | None:
        """The result's bytes; None if the job has not ended within wait_s seconds. Raises Refused "no-result".

        progress: told how many bytes have come, and of how many.
        """
        return fetch(self._transport, _job(job_id, "result"), wait_s, progress)

    # ------------------------------------------------------------ models

    def push_model(
        self, folder: str | Path, name: str, progress: Pushing | None = None, *, skip_broken_links: bool = False
    ) -> dict[str, Any]:
        """Make the files below that folder the model of that name; what the gateway has already is not sent.

        progress: told the path, the bytes seen so far, all bytes, and the bytes that had to be sent. skip_broken_links: leave
        behind the links that lead nowhere; otherwise Refused names the first.
        """
        return push(self._transport, Path(folder), name, progress, skip_broken_links)

    def models(self) -> list[dict[str, Any]]:
        """The caller's models, by name."""
        return listed(self._transport)

    def remove_model(self, name: str) -> None:
        """Raises NotFound if the caller has none of that name."""
        remove(self._transport, name)

    # ------------------------------------------------------------ the rest

    def resources(self) -> dict[str, Any]:
        return self._json("GET", "/v1/resources")

    def advice(self, job_id: str | None = None) -> dict[str, Any]:
        """For admins: the fewest moves that would let waiting jobs in, or that one. None is made."""
        return self._json("GET", "/v1/admin/advice", params={"job": job_id} if job_id else {})

    def usage(self, after: int = 0, limit: int = 1000) -> dict[str, Any]:
        return self._json("GET", "/v1/usage", params={"after": after, "limit": limit})

    def usage_csv(self, after: int = 0, limit: int = 1000) -> str:
        params = {"after": after, "limit": limit}
        return self._transport.send("GET", "/v1/usage", params=params, headers={"Accept": "text/csv"}).text

    def statement(self, month: str) -> dict[str, Any]:
        """What the caller's accounts began with in that month, what came and went, and what they ended with. month: such as
        "2026-11", in UTC."""
        return self._json("GET", "/v1/statement", params={"month": month})

    def account(self) -> dict[str, Any]:
        return self._json("GET", "/v1/account")

    def server_version(self) -> dict[str, Any]:
        return self._json("GET", "/version")

    def _json(self, method: str, path: str, **rest: Any) -> dict[str, Any]:
        return facts_of(self._transport.send(method, path, **rest))


def _job(job_id: str, what: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}/{what}"
