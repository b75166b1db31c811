"""Every bill of this suite computed once more from the exported CSV, by the rules of docs/guides/billing.md alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import gridweave as gw

from tests.money.recomputed import PriceList, Slot, postings

PRICES = PriceList(base=0, vram=1_000_000)  # as the rig's settings say: nobody has a rate of his own
PAGE = 1_000


def rows(client: gw.Client) -> Iterator[dict[str, str]]:
    """The usage CSV, page by page."""
    after = 0
    while True:
        page = list(csv.DictReader(io.StringIO(client.usage_csv(after, PAGE))))
        yield from page
        if len(page) < PAGE:
            return
        after = int(page[-1]["seq"])


def disagreements(client: gw.Client, user: str) -> list[str]:
    """Runs of that user whose charges are not what they come to for as long as they have run so far."""
    charged: dict[str, int] = {}
    ran: dict[str, list[int]] = {}  # of each workload that had the name: where its time begins anew, it is another one
    for row in rows(client):
        if row["kind"] == "charge" and row["account"] == f"user:{user}":
            charged[row["run"]] = charged.get(row["run"], 0) + int(Decimal(row["amount"]) * 1_000_000)
            lives = ran.setdefault(row["run"], [])
            if lives and int(row["ran_ms"]) >= lives[-1]:
                lives.pop()
            lives.append(int(row["ran_ms"]))
    jobs = {f"{job['id']}/{job['attempt']}": job for job in client.jobs()} if charged else {}
    found = []
    for run, amount in charged.items():
        job = jobs.get(run)  # an attempt that was not the last has left no placement to look at
        if job is None:
            continue
        due = sum(postings(slots(job), PRICES, user, each).get(f"user:{user}", 0) for each in ran[run])
        if due != amount:
            found.append(f"{run} of {user} ran {ran[run]} ms and was charged {-amount}, not {-due} micro-credits")
    return found


def slots(job: dict[str, Any]) -> list[Slot]:
    """whole: of no matter, since nobody has a rate per GPU."""
    return [Slot(each["owner"], each["model"], each["mib"], each["mib"]) for each in job["placement"]]
