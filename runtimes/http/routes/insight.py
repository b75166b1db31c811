"""How the house is, for admins; how his hardware does, for a provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import falcon.asgi
from attrs import frozen

from core.arrears import open_arrears
from core.earnings import Earnings, drift, earnings, own_nodes
from core.exposure import standing
from ports.credits import ISSUE
from ports.errors import GridweaveError, Unavailable
from runtimes.http.bodies import views
from runtimes.http.identity import admin_of, provider_of
from runtimes.http.pools import Pool
from runtimes.http.queries import Query
from runtimes.http.routes.nodes import node_view
from runtimes.http.services import Services

_ASKED_S = 5.0  # a dependency that takes longer to answer is not well
_USERS = 100  # shown at most
_NO_BLOB = "health/nothing"


@frozen
class ProviderStatus:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = provider_of(req)
        Query(req, ())
        nodes = [views.OwnNodeView(node_view(each.node), each.runs) for each in own_nodes(self.services.watch.fleet(), caller.user)]
        money = None
        if self.services.house.terms.credits_enabled:
            money = _earned(await self.services.pools.credits.run(earnings, self.services.house, caller.user))
        gpus = [gpu for each in nodes for gpu in each.node.gpus]
        total, booked = sum(gpu.total_mib for gpu in gpus), sum(gpu.booked_mib for gpu in gpus)
        resp.data = views.encode(views.ProviderStatus(nodes, sum(each.runs for each in nodes), total, booked, money))


def _earned(of: Earnings) -> views.EarningsView:
    return views.EarningsView(str(of.balance), str(of.today), str(of.month), str(of.ever), str(of.paid_out))


@frozen
class AdminHealth:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Always 200: what is wrong is in it."""
        admin_of(req)
        Query(req, ())
        house, pools = self.services.house, self.services.pools
        asked: list[tuple[str, Pool, Callable[[], object]]] = [
            ("store", pools.store, house.nodes.list),
            ("tariffs", pools.store, house.tariffs.history),
            ("blobs", pools.blobs, lambda: house.blobs.stat(_NO_BLOB)),
        ]
        if house.terms.credits_enabled:
            asked += [
                ("credits", pools.credits, lambda: house.credits.account(ISSUE)),
                ("metering", pools.credits, lambda: house.metering.record(())),
            ]
        dependencies = list(await asyncio.gather(*(_ask(*each) for each in asked)))
        quarantined: list[views.QuarantinedView] = []
        differences: list[str] = []
        try:
            fleet = self.services.watch.fleet()
        except Unavailable as error:
            differences = [str(error)]
        else:
            differences = drift(fleet)
            for node in fleet.nodes:
                quarantined += [
                    views.QuarantinedView(node.record.name, each.gpu, each.mib.n, each.run) for each in node.record.status.quarantine
                ]
        arrears, charging = await self._money(dependencies)
        rounds = [views.RoundView(each.what, views.instant(each.at), each.took.ms, each.said) for each in self.services.rounds()]
        reasons = self.services.reasons()
        ok = all(each.ok for each in dependencies) and not reasons and not (arrears is not None and arrears.debts)
        resp.data = views.encode(views.AdminHealth(ok, reasons, dependencies, rounds, differences, quarantined, arrears, charging))

    async def _money(self, dependencies: list[views.DependencyView]) -> tuple[views.ArrearsView | None, views.ChargingView | None]:
        """What can't be read is added to what is not well."""
        house = self.services.house
        if not house.terms.credits_enabled:
            return None, None
        try:
            owed = await self.services.pools.blobs.run(open_arrears, house.blobs, deadline_s=_ASKED_S)
            left = await self.services.pools.blobs.run(standing, house.blobs, deadline_s=_ASKED_S)
        except GridweaveError as error:
            dependencies.append(views.DependencyView("arrears", False, str(error)))
            return None, None
        taken = views.instant(left.taken) if left.taken is not None else None
        most = sorted(left.exposed.items(), key=lambda each: -each[1].micro)[:_USERS]
        uncharged = {user: str(amount) for user, amount in most}
        return (
            views.ArrearsView(owed.debts, owed.users, str(owed.most), views.instant(owed.oldest) if owed.oldest is not None else None),
            views.ChargingView(taken, left.away, uncharged, str(house.terms.exposure_limit)),
        )


async def _ask(name: str, pool: Pool, call: Callable[[], object]) -> views.DependencyView:
    try:
        await pool.run(call, deadline_s=_ASKED_S)
    except GridweaveError as error:
        return views.DependencyView(name, False, str(error))
    return views.DependencyView(name, True, "")
