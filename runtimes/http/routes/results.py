"""Results: wait for the end if asked to, then the bytes; the gateway never looks inside."""

from __future__ import annotations

import asyncio

import falcon
import falcon.asgi
from attrs import frozen

from core import jobs
from ports.workloads import RESULT_STORED, TERMINAL, Job, Phase
from runtimes.http import ranges
from runtimes.http.bodies import views
from runtimes.http.identity import caller_of
from runtimes.http.queries import Query, job_id
from runtimes.http.refusals import NoResult
from runtimes.http.routes.jobs import view
from runtimes.http.services import Services

MAX_WAIT_S = 300
_LOOK_AGAIN_S = 10.0  # in case a change was missed while the store did not answer


@frozen
class Result:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        """200 with the result, 202 with the status if the job has not ended in that time, 409 if there is none."""
        caller, name = caller_of(req), job_id(id)
        wait = Query(req, ("wait",)).seconds("wait", MAX_WAIT_S)
        loop = asyncio.get_running_loop()
        until = loop.time() + wait
        with self.services.watch.changes_of(name) as signal:
            while True:
                job = await self.services.pools.store.run(jobs.find, self.services.house, caller, name)
                left = until - loop.time()
                if _settled(job) or left <= 0 or self.services.stopping.is_set():
                    break
                await signal.wait(min(left, _LOOK_AGAIN_S))
        await self._answer(req, resp, job)

    async def _answer(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, job: Job) -> None:
        if not _settled(job):
            resp.status = falcon.HTTP_202
            resp.data = views.encode(view(self.services, job))
            return
        status, result = job.status, job.status.result
        phase = status.outcome or status.phase
        if result is None or phase is Phase.CANCELLED:
            said = views.exit_view(status.run)
            message = (
                f"The job has ended without a result: {phase}{f' ({status.reason})' if status.reason else ''}. {status.message}".strip()
            )
            raise NoResult(message, "", "Its status and logs say what happened.", phase.value, status.reason, said, status.message)
        resp.set_header("X-Gridweave-Outcome", "raised" if result.raised else "returned")
        await ranges.send(self.services, req, resp, result.key, result.size, result.sha256)


def _settled(job: Job) -> bool:
    """Nothing about the result can change any more. What is still being paid does not keep it back."""
    status = job.status
    return status.phase in TERMINAL or (status.phase is Phase.CLOSING and status.holds(RESULT_STORED) and status.result is not None)
