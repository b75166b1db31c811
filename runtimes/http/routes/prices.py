"""Price lists: org's rates and the splits for admins, a provider's own rates for him."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import falcon.asgi
from attrs import frozen

from core import price_lists
from core.house import House
from core.owners import provider
from ports.errors import Invalid
from ports.tariffs import Tariff
from ports.units import Span
from runtimes.http import transfers
from runtimes.http.bodies import prices, strict, views
from runtimes.http.identity import admin_of, only, provider_of
from runtimes.http.queries import Query
from runtimes.http.refusals import PreconditionRequired
from runtimes.http.services import Services

CHANGES = 200  # shown at most
_ETAG = re.compile(r'"(\d{1,15})"', re.ASCII)


@frozen
class Shown:
    """How one part of the price list is shown. part: of a tariff. change, whole: the classes of the answer."""

    part: Callable[[Tariff], Any]
    change: Callable[..., Any]
    whole: Callable[..., Any]

    def read(self, house: House) -> Any:
        """In a thread."""
        history, now = house.tariffs.history(), house.tariffs.in_force(house.clock.now())
        made = [
            self.change(
                step.tariff.version,
                step.tariff.by,
                views.instant(step.tariff.at),
                views.instant(step.tariff.effective),
                self.part(step.before),
                self.part(step.tariff),
            )
            for step in price_lists.steps(history, self.part)
        ]
        last = price_lists.last(history)
        return self.whole(history[-1].version, views.instant(last.effective), self.part(last), self.part(now), made[-CHANGES:])


@frozen
class GpuPricing:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        admin_of(req)
        await _show(self.services, req, resp, _ORG)

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = admin_of(req)
        await _change(self.services, req, resp, _ORG, caller.user, prices.GpuPricingBody, lambda body, tariff: body.change(tariff))


@frozen
class Splits:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        admin_of(req)
        await _show(self.services, req, resp, _SPLITS)

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = admin_of(req)
        await _change(self.services, req, resp, _SPLITS, caller.user, prices.RevenueSplitsBody, lambda body, tariff: body.change(tariff))


@frozen
class ProviderPricing:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await _show(self.services, req, resp, _own(provider(provider_of(req).user)))

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = provider_of(req)
        owner = provider(caller.user)
        change = lambda body, tariff: body.change(tariff, owner)  # noqa: E731 - as those above
        bounds = price_lists.FURTHEST_OF_A_PROVIDER, price_lists.MOST_OF_A_PROVIDER
        await _change(self.services, req, resp, _own(owner), caller.user, prices.ProviderPricingBody, change, *bounds)


_ORG = Shown(prices.GpuPrices.of, prices.GpuPricesChange, prices.GpuPricesView)
_SPLITS = Shown(prices.RevenueSplits.of, prices.RevenueSplitsChange, prices.RevenueSplitsView)


def _own(owner: str) -> Shown:
    return Shown(lambda tariff: prices.ProviderPrices.of(tariff, owner), prices.ProviderPricesChange, prices.ProviderPricesView)


async def _show(services: Services, req: falcon.asgi.Request, resp: falcon.asgi.Response, shown: Shown) -> None:
    Query(req, ())
    view = await services.pools.store.run(shown.read, services.house)
    resp.set_header("ETag", f'"{view.version}"')
    resp.data = views.encode(view)


async def _change(
    services: Services,
    req: falcon.asgi.Request,
    resp: falcon.asgi.Response,
    shown: Shown,
    who: str,
    kind: type[Any],
    change: Callable[[Any, Tariff], Tariff],
    furthest: Span = price_lists.FURTHEST,
    most: int = price_lists.MOST_ANNOUNCED,
) -> None:
    version = matched(req)
    body = strict.structure(strict.parse(await transfers.json_body(req, prices.MAX_BODY)), kind)
    begins = prices.effective(body.effective)
    publish, house = price_lists.publish, services.house
    await services.pools.writes.run(publish, house, who, version, lambda tariff: change(body, tariff), begins, furthest, most)
    await _show(services, req, resp, shown)


def matched(req: falcon.asgi.Request) -> int:
    """The version that the caller has read. Raises PreconditionRequired, Invalid."""
    given = only(req.scope["headers"], "If-Match")
    if given is None:
        raise PreconditionRequired("If-Match is wanted.", "If-Match", "Send the ETag with which you have read the prices.")
    found = _ETAG.fullmatch(given)
    if found is None:
        raise Invalid(f"If-Match is {given!r:.60}.", "If-Match", 'Send the ETag as it was given, such as "7" with its quotes.', given)
    return int(found[1])
