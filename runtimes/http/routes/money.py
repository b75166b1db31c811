"""Money: the caller's account and postings."""

from __future__ import annotations

import csv
import io

import falcon
import falcon.asgi
from attrs import asdict, frozen

from core.callers import Caller, Role
from core.owners import provider
from core.statements import Statement, statement
from ports import credits as ports_credits
from ports.credits import BEGINNING, END, Entry, owner_account, user_account
from ports.errors import Invalid, Refused
from ports.months import ZONE, Month
from ports.units import Credits
from ports.workloads import RunId
from runtimes.http import transfers
from runtimes.http.bodies import fields, strict, views
from runtimes.http.identity import caller_of
from runtimes.http.queries import Query
from runtimes.http.services import Services

_MAX_BODY = 4096
_LARGEST = Credits(2**53)  # of a cap, for whatever keeps it
_COLUMNS = ("seq", "at", "account", "job", "run", "kind", "amount", "memo", "ran_ms")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@frozen
class Account:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        caller = caller_of(req)
        Query(req, ())
        found = ports_credits.Account("", Credits(0), Credits(0))
        if self.services.house.terms.credits_enabled:
            found = await self.services.pools.credits.run(self.services.house.credits.account, user_account(caller.user))
        resp.data = views.encode(self._view(caller, found))

    def _view(self, caller: Caller, of: ports_credits.Account) -> views.AccountView:
        plan, money = caller.narrowed(of.plan).plan.value, (str(of.balance), str(of.held), str(of.available))
        month = Month.of(self.services.house.clock.now())
        cap = str(of.cap) if of.cap is not None else None
        budget = views.BudgetView(str(month), ZONE, cap, str(of.spent), views.instant(month.end))
        return views.AccountView(caller.user, plan, *money, self.services.house.terms.credits_enabled, budget)


@frozen
class BudgetBody:
    """monthly: the most that the caller may spend in a month of UTC; null: no bound."""

    monthly: fields.Cap | None


@frozen
class Budget:
    services: Services

    async def on_put(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Of the caller himself. At the cap what runs is ended, and nothing new is taken until the next month."""
        caller = caller_of(req)
        body = strict.structure(strict.parse(await transfers.json_body(req, _MAX_BODY)), BudgetBody)
        cap = None if body.monthly is None else Credits.parse(str(body.monthly), "monthly")
        if cap is not None and not Credits(0) <= cap <= _LARGEST:
            remedy = f"Give 0 to {_LARGEST} credits, or null for no bound."
            raise Invalid(f"monthly is {body.monthly}.", "monthly", remedy, str(body.monthly))
        if not self.services.house.terms.credits_enabled:
            raise Refused("Credits are off here: nothing is charged, and nothing can be bounded.", "monthly")
        set_cap = self.services.house.credits.set_cap
        found = await self.services.pools.credits.run(set_cap, user_account(caller.user), cap)
        resp.data = views.encode(Account(self.services)._view(caller, found))


@frozen
class Usage:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """The caller's postings, oldest first; a provider's earnings are among them. CSV if the client prefers it."""
        caller = caller_of(req)
        query = Query(req, ("after", "limit", "month"))
        after, limit = query.whole("after", 0, 0, 10**15), query.whole("limit", 1000, 1, 10_000)
        month = Month.parse(query.text("month")) if query.text("month") else None
        entries: list[Entry] = []
        if self.services.house.terms.credits_enabled:
            entries = await self.services.pools.credits.run(self._read, caller, after, limit, month)
        found = [_view(entry) for entry in entries]
        cursor = entries[-1].seq if entries else after
        resp.set_header("Vary", "Accept")
        if req.client_prefers(["application/json", "text/csv"]) == "text/csv":
            resp.content_type = "text/csv; charset=utf-8"
            resp.set_header("X-Gridweave-Cursor", str(cursor))
            resp.data = _csv(found)
            return
        resp.data = views.encode(views.Usage(found, cursor))

    def _read(self, caller: Caller, after: int, limit: int, month: Month | None) -> list[Entry]:
        when = (BEGINNING, END) if month is None else (month.begin, month.end)
        journal = self.services.house.credits.journal
        found = (entry for name in _accounts(caller) for entry in journal(name, after, limit, *when))
        return sorted(found, key=lambda entry: entry.seq)[:limit]


@frozen
class Statements:
    services: Services

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """The caller's accounts over a month: opening, what came and went by kind, closing. CSV if the client prefers it."""
        caller = caller_of(req)
        month = Month.parse(Query(req, ("month",)).text("month"))
        found: list[Statement] = []
        if self.services.house.terms.credits_enabled:
            found = await self.services.pools.credits.run(self._read, caller, month)
        said = [_statement_view(each) for each in found]
        resp.set_header("Vary", "Accept")
        if req.client_prefers(["application/json", "text/csv"]) == "text/csv":
            resp.content_type = "text/csv; charset=utf-8"
            resp.data = _statement_csv(said)
            return
        span = views.instant(month.begin), views.instant(month.end)
        resp.data = views.encode(views.StatementsView(str(month), ZONE, *span, said))

    def _read(self, caller: Caller, month: Month) -> list[Statement]:
        return [statement(self.services.house.credits, name, month) for name in _accounts(caller)]


def _accounts(caller: Caller) -> list[str]:
    """His own, and what his hardware earns."""
    return [user_account(caller.user), *([owner_account(provider(caller.user))] if caller.role is Role.PROVIDER else [])]


def _statement_view(of: Statement) -> views.StatementView:
    return views.StatementView(of.account, str(of.opening), {kind: str(amount) for kind, amount in of.kinds.items()}, str(of.closing))


def _statement_csv(statements: list[views.StatementView]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(("account", "line", "amount"))
    for each in statements:
        lines = (("opening", each.opening), *each.kinds.items(), ("closing", each.closing))
        writer.writerows((each.account, line, amount) for line, amount in lines)
    return text.getvalue().encode()


def _view(entry: Entry) -> views.EntryView:
    job = RunId.parse(entry.run).workload if entry.run else ""
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
