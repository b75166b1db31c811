"""`bill`: what was charged, to the micro-credit."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

from gridweave.client import Client
from gridweave.commands.options import COMMON, Common

_PAGE = 1000


def bill(*, csv: bool = False, common: Common = COMMON) -> int:
    """List your postings, and your balance.

    Parameters
    ----------
    csv
        Print the postings as CSV.
    """
    output, client = common.output(), common.client()
    if csv:
        _print_csv(client)
        return 0
    entries, account = _entries(client), client.account()
    total = sum((Decimal(entry["amount"]) for entry in entries), Decimal(0))
    if output.json:
        output.emit({"entries": entries, "total": f"{total:.6f}", "account": account})
        return 0
    rows = [_row(entry, output.terminal) for entry in entries]
    output.table(("AT", "JOB", "KIND", "MEMO", "RAN", "CREDITS"), rows)
    output.fields(
        {
            "total": f"{total:.6f} credits",
            "balance": f"{account['balance']} credits" if account.get("balance") else "",
            "held": f"{account['held']} credits" if account.get("held") else "",
        }
    )
    if account.get("credits_enabled") is False:
        output.remark("Credits are off: nothing is held or charged.")
    return 0


def _entries(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = 0
    while True:
        page = client.usage(cursor, _PAGE)
        found += page["entries"]
        if len(page["entries"]) < _PAGE or page.get("cursor") in (None, cursor):
            return found
        cursor = int(page["cursor"])


def _print_csv(client: Client) -> None:
    """All pages under one heading. The first column is the sequence number that the next page starts after."""
    cursor, first = 0, True
    while True:
        lines = client.usage_csv(cursor, _PAGE).splitlines(keepends=True)
        sys.stdout.write("".join(lines if first else lines[1:]))
        first = False
        last = lines[-1].partition(",")[0].strip('"') if len(lines) > _PAGE else ""
        if not last.isdigit():
            sys.stdout.flush()
            return
        cursor = int(last)


def _row(entry: dict[str, Any], short: bool) -> list[str]:
    ran = f"{entry['ran_ms'] / 1000:.3f} s" if entry.get("ran_ms") else ""
    texts = [str(entry.get(key) or "") for key in ("at", "job", "kind", "memo")]
    if short:
        texts[:2] = texts[0][:19].replace("T", " "), texts[1][:12]
    return [*texts, ran, str(entry["amount"])]
