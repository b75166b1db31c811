"""Money: the caller's account and postings."""

from __future__ import annotations

import csv
import io

import falcon
import falcon.asgi
from attrs import asdict, frozen

from core.callers import Caller, Role
from ports.credits import Entry, owner_account, user_account
from ports.units import Credits
from runtimes.http.bodies import views
from runtimes.http.identity import caller_of
from runtimes.http.queries import Query
from runtimes.http.services import Services

_COLUMNS = ("seq", "at", "account", "job", "run", "kind", "amount", "memo", "ran_ms")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@frozen
class Account:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = caller_of(req)
        Query(req, ())
        enabled = self.services.house.terms.credits_enabled
        balance = held = Credits(0)
        if enabled:
            account = await self.services.pools.credits.run(self.services.house.credits.account, user_account(caller.user))
            balance, held = account.balance, account.held
        money = (str(balance), str(held), str(balance - held))
        resp.data = views.encode(views.AccountView(caller.user, caller.plan.value, *money, enabled))


@frozen
class Usage:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """The caller's postings, oldest first; a provider's earnings are among them. CSV if the client prefers it."""
        caller = caller_of(req)
        query = Query(req, ("after", "limit"))
        after, limit = query.whole("after", 0, 0, 10**15), query.whole("limit", 1000, 1, 10_000)
        entries: list[Entry] = []
        if self.services.house.terms.credits_enabled:
            entries = await self.services.pools.credits.run(self._read, caller, after, limit)
        found = [_view(entry) for entry in entries]
        cursor = entries[-1].seq if entries else after
        resp.set_header("Vary", "Accept")
        if req.client_prefers(["application/json", "text/csv"]) == "text/csv":
            resp.content_type = "text/csv; charset=utf-8"
            resp.set_header("X-Gridweave-Cursor", str(cursor))
            resp.data = _csv(found)
            return
        resp.data = views.encode(views.Usage(found, cursor))

    def _read(self, caller: Caller, after: int, limit: int) -> list[Entry]:
        accounts = [user_account(caller.user)]
        if caller.role is Role.PROVIDER:
            accounts.append(owner_account(f"provider:{caller.user}"))
        journal = self.services.house.credits.journal
        return sorted((entry for name in accounts for entry in journal(name, after, limit)), key=lambda entry: entry.seq)[:limit]


def _view(entry: Entry) -> views.EntryView:
    job = entry.run.partition("/")[0]
    amount, ran = str(entry.amount), entry.until.ms
    return views.EntryView(entry.seq, views.instant(entry.at), entry.account, job, entry.run, entry.kind, amount, entry.memo, ran)


def _csv(entries: list[views.EntryView]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for entry in entries:
        row = asdict(entry)
        row["memo"] = f"'{row['memo']}" if row["memo"].startswith(_FORMULA) else row["memo"]  # no formula in a spreadsheet
        writer.writerow(row)
    return text.getvalue().encode()
