"""Logs: a piece by offset, or followed as server-sent events."""

from __future__ import annotations

import functools
import re

import falcon.asgi
from attrs import frozen

from core import jobs
from core.callers import Caller
from ports.errors import Invalid
from ports.workloads import Job
from runtimes.http.followers import Feeds
from runtimes.http.identity import caller_of, only
from runtimes.http.queries import Query, job_id
from runtimes.http.services import Services
from runtimes.http.sse import Follower

_MAX_LIMIT = 8 * 1024 * 1024
_MAX_OFFSET = 10**15


@frozen
class Logs:
    services: Services
    feeds: Feeds

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        """stdout and stderr in the order of a terminal, as bytes."""
        caller, name = caller_of(req), job_id(id)
        query = Query(req, ("offset", "limit", "follow"))
        offset, limit = query.whole("offset", 0, 0, _MAX_OFFSET), query.whole("limit", 1024 * 1024, 1, _MAX_LIMIT)
        job = await self._job(caller, name)
        if query.flag("follow"):
            resumed = _last_event_id(req)
            follower = Follower(
                self.services, self.feeds, job, offset if resumed is None else resumed, functools.partial(self._job, caller, name)
            )
            resp.set_header("Cache-Control", "no-store")
            resp.set_header("X-Accel-Buffering", "no")
            resp.sse = follower.events()
            return
        piece = await self.feeds.logs.read(job, offset, limit)
        resp.content_type = "application/octet-stream"
        resp.set_header("X-Gridweave-Log-Next", str(piece.next))
        resp.set_header("X-Gridweave-Log-Complete", "true" if piece.complete else "false")
        resp.data = piece.data

    async def _job(self, caller: Caller, name: str) -> Job:
        return await self.services.pools.store.run(jobs.find, self.services.house, caller, name)


def _last_event_id(req: falcon.asgi.Request) -> int | None:
    text = only(req.scope["headers"], "Last-Event-ID")
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,15}", text, re.ASCII) is None:
        raise Invalid(f"Last-Event-ID is {text!r:.60}.", "Last-Event-ID", "Send the id of the last event as it came.", text)
    return int(text)
