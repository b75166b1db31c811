"""`bill`: what was charged, to the micro-credit."""

from __future__ import annotations

import csv as tables
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

from gridweave.client import Client
from gridweave.commands.numbers import WHOLE
from gridweave.commands.options import COMMON, Common
from gridweave.errors import GridweaveError, Refused

_PAGE = 1000
_AGO = re.compile(r"(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def bill(
    *,
    limit: Annotated[int | None, WHOLE] = None,
    since: str | None = None,
    month: str | None = None,
    csv: bool = False,
    common: Common = COMMON,
) -> int:
    """List your postings, and your balance.

    Parameters
    ----------
    limit
        Only the newest, that many.
    since
        Only those since then: a time such as 2026-11-29 or 2026-11-29T17:00 (UTC), or an age such as 30m, 12h or 7d.
    month
        Only those of that month, with what it began and ended with and the sum of each kind: such as 2026-11. Months are those of UTC.
    csv
        Print the postings as CSV.
    """
    output, client = common.output(), common.client()
    if limit is not None and limit < 0:
        raise Refused(f"--limit cannot be {limit}", kind="usage", field="limit", value=str(limit), remedy="Give a number of postings.")
    if csv and output.json:
        raise Refused("--csv and --json go not together", kind="usage", field="csv", value="", remedy="Give one of them.")
    if month is not None and since is not None:
        raise Refused("--month and --since go not together", kind="usage", field="month", value=month, remedy="Give one of them.")
    statements = client.statement(month)["statements"] if month is not None else []
    everything = _entries(client)
    ran = _increments(everything)
    chosen = _chosen([each for each in everything if str(each["at"]).startswith(month or "")], limit, _moment(since) if since else None)
    if csv:
        _print_csv(client, {str(entry["seq"]) for entry in chosen})
        return 0
    account, total = client.account(), sum((Decimal(entry["amount"]) for entry in chosen), Decimal(0))
    if output.json:
        said = {"month": month, "zone": "UTC", "statements": statements} if month is not None else {}
        output.emit({**said, "entries": chosen, "total": f"{total:.6f}", "account": account})
        return 0
    names = _names(client) if chosen else {}
    rows = [_row(entry, ran[entry["seq"]], names, output.terminal) for entry in chosen]
    output.table(("AT", "JOB", "NAME", "KIND", "MEMO", "RAN", "CREDITS"), rows)
    for each in statements:
        kinds = {f"sum of {kind}": f"{amount} credits" for kind, amount in (each.get("kinds") or {}).items()}
        opening, closing = f"{each['opening']} credits", f"{each['closing']} credits"
        output.fields({"account": each["account"], "opening": opening, **kinds, "closing": closing})
    output.fields({"total" if len(chosen) == len(everything) else "total of these": f"{total:.6f} credits", **_money(account)})
    if account.get("credits_enabled") is False:
        output.remark("Credits are off: nothing is held or charged.")
    return 0


def _money(account: Mapping[str, Any]) -> dict[str, str]:
    """What the account has, what of it is set aside for unfinished jobs, and what is left for new ones; and the month's budget, if there
    is one: that it is used up is no want of money."""
    if not account.get("balance"):
        return {}
    held = account.get("held") or "0.000000"
    available = account.get("available") or f"{Decimal(account['balance']) - Decimal(held):.6f}"
    bounded = " (what the budget leaves)" if Decimal(available) < Decimal(account["balance"]) - Decimal(held) else ""
    said = {"balance": f"{account['balance']} credits", "held": f"{held} credits", "available": f"{available} credits{bounded}"}
    return said | _budget(account.get("budget") or {})


def _budget(of: Mapping[str, Any]) -> dict[str, str]:
    if of.get("monthly") is None:
        return {}
    begins = f"; a new one begins on {str(of['resets'])[:10]} {of.get('zone')}" if of.get("resets") else ""
    said = f"{of['monthly']} credits, {of.get('spent')} spent{begins}; raise it by PUT /v1/account/budget"
    return {f"budget of {of.get('month')}": said}


def _entries(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = 0
    while True:
        page = client.usage(cursor, _PAGE)
        found += page["entries"]
        if len(page["entries"]) < _PAGE or page.get("cursor") in (None, cursor):
            return found
        cursor = int(page["cursor"])


def _increments(entries: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """By posting, the milliseconds that it is about: a posting tells how long its run had run until then."""
    until: dict[str, int] = {}
    found: dict[int, int] = {}
    for entry in entries:
        run, ran = str(entry.get("run") or ""), int(entry.get("ran_ms") or 0)
        found[entry["seq"]] = max(0, ran - until.get(run, 0))
        until[run] = max(ran, until.get(run, 0))
    return found


def _chosen(entries: list[dict[str, Any]], limit: int | None, since: datetime | None) -> list[dict[str, Any]]:
    if since is not None:
        entries = [entry for entry in entries if datetime.fromisoformat(str(entry["at"])) >= since]
    return entries if limit is None else entries[max(0, len(entries) - limit) :]


def _moment(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    if ago:
        return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        remedy = "Give a time such as 2026-11-29 or 2026-11-29T17:00, or an age such as 30m, 12h or 7d."
        raise Refused(f"--since {text!r} is no time", kind="usage", field="since", value=text, remedy=remedy) from None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def _names(client: Client) -> dict[str, str]:
    """Names of the newest jobs; of older ones the bill shows the id alone."""
    try:
        return {str(job["id"]): str(job.get("name") or "") for job in client.jobs(limit=_PAGE, pages=1)}
    except GridweaveError:
        return {}


def _print_csv(client: Client, chosen: set[str]) -> None:
    """As the gateway writes them, under one heading. The first column is the sequence number that the next page starts after."""
    cursor, first, writer = 0, True, tables.writer(sys.stdout, lineterminator="\n")
    while True:
        heading, *rows = list(tables.reader(client.usage_csv(cursor, _PAGE).splitlines())) or [[]]
        writer.writerows([heading] if first else [])
        writer.writerows(row for row in rows if row and row[0] in chosen)
        first = False
        if len(rows) < _PAGE or not rows[-1][0].isdigit():
            sys.stdout.flush()
            return
        cursor = int(rows[-1][0])


def _row(entry: Mapping[str, Any], ran_ms: int, names: Mapping[str, str], short: bool) -> list[str]:
    job = str(entry.get("job") or "")
    at = str(entry.get("at") or "")
    shown = (at[:19].replace("T", " "), job[:12]) if short else (at, job)
    ran = f"{ran_ms / 1000:.3f} s" if entry.get("ran_ms") else ""
    return [*shown, names.get(job, ""), str(entry.get("kind") or ""), str(entry.get("memo") or ""), ran, str(entry["amount"])]
