"""Jobs: submit, estimate, list, status, cancel."""

from __future__ import annotations

from contextlib import suppress

import falcon
import falcon.asgi
import structlog
from attrs import field, frozen

from core import jobs, names, outlook
from core.callers import Caller
from core.estimate import estimate
from ports.credits import user_account
from ports.errors import Forbidden, Invalid, Unavailable
from ports.units import Credits, Instant
from ports.workloads import Job, JobFilter, Phase
from runtimes.http import payloads, shown, transfers
from runtimes.http.bodies import views
from runtimes.http.bodies.jobs import MAX_BODY, estimated, received
from runtimes.http.identity import caller_of, only
from runtimes.http.queries import Query, job_id
from runtimes.http.services import Services
from runtimes.http.shown import Shown

_SUBMIT_S = 60.0
_BALANCE_S = 2.0  # a status does not wait longer for it
log = structlog.get_logger("gridweave.jobs")


def status_url(job: Job) -> str:
    return f"/v1/jobs/{job.id}/status"


def view(services: Services, job: Job) -> views.JobView:
    return shown.view(services.watch, job)


async def money_ends(services: Services, job: Job) -> Instant | None:
    """Also while the credit service is away: then by the job's cap alone."""
    if job.status.phase is not Phase.RUNNING or not job.spec.billed:
        return None
    balance: Credits | None = None
    with suppress(Unavailable):
        account = services.house.credits.account
        known = await services.pools.credits.run(account, user_account(job.spec.user), deadline_s=_BALANCE_S)
        balance = known.available + known.held
    return outlook.money_ends(job, services.watch.fleet(), balance, services.house.clock.now())


def idempotency_key(services: Services, req: falcon.asgi.Request) -> str:
    """The client's key, or a fresh one that nobody can repeat. Raises Invalid."""
    key = only(req.scope["headers"], "Idempotency-Key")
    if key is not None and len(key) > 255:
        raise Invalid("Idempotency-Key is longer than 255 characters.", "Idempotency-Key", "Send a shorter one.", key)
    return f"k:{key}" if key is not None else f"t:{services.house.randomness.token()}"


@frozen
class Submit:
    services: Services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """202 with the job, also when an earlier request with the same key made it."""
        caller, key = caller_of(req), idempotency_key(self.services, req)
        req.context.workload = names.job_id(caller.user, key)
        said = received(await transfers.json_body(req, MAX_BODY), key)
        fleet = self.services.watch.fleet()
        pool = self.services.pools.writes
        made = await pool.run(payloads.store_and_submit, self.services.house, caller, said, fleet, deadline_s=_SUBMIT_S)
        job = made.job
        log.info("submitted", workload=job.id, user=caller.user, created=made.created, hold=str(job.spec.hold))
        resp.status = falcon.HTTP_202
        resp.location = status_url(job)
        rate = views.hourly(made.rate)
        resp.data = views.encode(
            views.SubmittedView(job.id, job.spec.name, job.status.phase.value, made.created, str(job.spec.hold), rate, status_url(job))
        )


@frozen
class Estimate:
    services: Services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """What it would cost and hold, and where it would go now. Nothing is written."""
        caller = caller_of(req)
        ask = estimated(await transfers.json_body(req, MAX_BODY))
        fleet = self.services.watch.fleet()
        given = await self.services.pools.credits.run(estimate, self.services.house, caller, ask, fleet, self.services.watch.queue())
        resp.data = views.encode(
            views.EstimateView(
                rate_per_hour=views.hourly(given.rate),
                hold=str(given.hold),
                balance=str(given.balance),
                available=str(given.available),
                affordable=given.affordable,
                placeable_now=given.placement is not None,
                placement=views.slots(given.placement or (), fleet),
                placed_rate_per_hour=views.hourly(given.placed_rate) if given.placed_rate is not None else None,
                reason=given.reason,
                short_by_mib=given.short_by.n,
                pools=list(given.pools),
                unaffordable=given.unaffordable,
            )
        )


@frozen
class Listing:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Newest first."""
        caller = caller_of(req)
        query = Query(req, ("phase", "name", "label", "limit", "cursor", "user"))
        which = JobFilter(_user(caller, query.text("user")), _phases(query.text("phase")), _labels(query), query.text("name") or None)
        limit = query.whole("limit", 100, 1, 1000)
        page = await self.services.pools.store.run(jobs.listing, self.services.house, caller, which, query.text("cursor"), limit)
        found = [views.brief(view(self.services, job)) for job in page.jobs]
        resp.data = views.encode(views.JobList(found, page.cursor, caller.admin and which.user is None))


@frozen
class Status:
    services: Services
    _shown: Shown = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_shown", Shown(self.services.watch))

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        caller, name = caller_of(req), job_id(id)
        Query(req, ())
        job = jobs.glance(self.services.house, caller, name)
        if job is None:
            job = await self.services.pools.store.run(jobs.find, self.services.house, caller, name)
        resp.data = self._shown.of(job, await money_ends(self.services, job))


@frozen
class Cancel:
    services: Services

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        """202: flagged. The job is Cancelled only when its processes are gone."""
        caller, name = caller_of(req), job_id(id)
        job = await self.services.pools.writes.run(jobs.cancel, self.services.house, caller, name)
        resp.status = falcon.HTTP_202
        resp.data = views.encode(view(self.services, job))


def _user(caller: Caller, user: str) -> str | None:
    if user and user != caller.user and not caller.admin:
        raise Forbidden("Only an admin may list the jobs of others.", "user", "Leave it out: your own jobs are listed.")
    return user or None


def _phases(text: str) -> frozenset[Phase]:
    names = [part for part in text.split(",") if part]
    wrong = next((name for name in names if name not in list(Phase)), None)
    if wrong is not None:
        raise Invalid(f"{wrong!r:.60} is no phase.", "phase", f"The phases are: {', '.join(Phase)}.", wrong)
    return frozenset(Phase(name) for name in names)


def _labels(query: Query) -> dict[str, str]:
    labels = {}
    for each in query.many("label"):
        key, equals, value = each.partition("=")
        if not key or not equals:
            raise Invalid(f"label is {each!r:.60}.", "label", "Send label=key=value.", each)
        labels[key] = value
    return labels
