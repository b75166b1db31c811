"""What an operator could move to let waiting jobs in. Only told: nothing is moved by it."""

from __future__ import annotations

import falcon.asgi
from attrs import frozen

from core import moves
from core.advice import MOST_MOVES, Move, Plan
from core.inventory import Fleet
from core.packing import needs
from ports.workloads import Job
from runtimes.http.bodies import views
from runtimes.http.identity import admin_of
from runtimes.http.queries import Query, job_id
from runtimes.http.services import Services


@frozen
class Advice:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """One snapshot; a search takes a thread of its own, since it may take seconds on a large and full fleet."""
        admin_of(req)
        query = Query(req, ("job", "limit", "moves"))
        wanted, limit, most = query.text("job"), query.whole("limit", 5, 1, 20), query.whole("moves", MOST_MOVES, 0, MOST_MOVES)
        fleet, waiting = self.services.watch.fleet(), self.services.watch.queue()
        which = job_id(wanted) if wanted else ""
        found = await self.services.pools.searches.run(moves.advice, fleet, waiting, which, limit, most)
        listed = [_view(each, fleet) for each in found]
        resp.data = views.encode(views.AdviceList(listed, len(waiting), sum(1 for _ in moves.movable(fleet))))


def _view(advice: moves.Advice, fleet: Fleet) -> views.AdviceView:
    job, plan = advice.job, advice.plan
    found = isinstance(plan, Plan)
    live = {each.id: each for each in fleet.live}
    return views.AdviceView(
        job=job.id,
        name=job.spec.name,
        user=job.spec.user,
        position=advice.position,
        wants=needs(job.spec.ask).removeprefix("Needs "),
        found=found,
        reason="" if isinstance(plan, Plan) else str(plan),
        moves=[_move(each, live, fleet) for each in plan.moves] if isinstance(plan, Plan) else [],
        placement=views.slots(plan.placement, fleet) if isinstance(plan, Plan) else [],
    )


def _move(move: Move, live: dict[str, Job], fleet: Fleet) -> views.MoveView:
    job = live[move.run.workload]
    return views.MoveView(job.id, str(move.run), job.spec.name, job.spec.user, views.slots(move.was, fleet), views.slots(move.to, fleet))
