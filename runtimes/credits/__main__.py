"""`gridweave-credits`: a credit service and a receiver of usage events, for a site that has none.

Started without a command it serves, on port 8300. The other commands work on the same journal, beside a running service too.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Annotated

from attrs import asdict
from cyclopts import App, Parameter

from adapters.local.clock import SystemClock
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from ports import months
from ports.credits import BEGINNING, END, ISSUE, Entry, user_account
from ports.errors import GridweaveError, Refused, Unavailable
from ports.units import Credits
from runtimes import failpoints
from runtimes.clock_offset import clock_of
from runtimes.credits.server import serve as serve_journal
from runtimes.failpoints import Failpoints
from runtimes.http.server import listen
from runtimes.log_lines import last_lines, log_to_stderr
from runtimes.settings import WrongSettingsError, load
from runtimes.state import state_folder

PORT = 8300
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print the answer as one JSON object.")]

app = App(name="gridweave-credits", help=__doc__, help_format="plaintext")


@app.default
def serve(
    *,
    host: Annotated[str, Parameter(help="Address to bind; ADMIN_TOKEN guards it.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="TCP port; 0: any free one.")] = PORT,
) -> int:
    """Serve until SIGTERM. STATE_DIR holds the journal; ADMIN_TOKEN is wanted as bearer."""
    settings = load(os.environ).settings
    if not settings.admin_token:
        raise Refused("ADMIN_TOKEN is not set.", "ADMIN_TOKEN", "Set it to at least 16 random characters.")
    log_to_stderr(last_lines(settings.state_dir.absolute()))
    failpoints.check(os.environ)
    try:
        listener = listen(host, port)
    except OSError as error:
        raise Refused(f"{host}:{port} can't be bound: {error.strerror}.", "port", "Take another one, or 0.") from error
    folder = state_folder(settings.state_dir)  # made only by a start that comes so far
    open_credits(folder).close()  # what is wrong with it is said before anybody connects
    print(f"gridweave-credits listens on http://{host}:{listener.getsockname()[1]}", flush=True)
    serve_journal(folder, settings.admin_token.get_secret_value(), listener, settings.shutdown_grace_seconds)
    return 0


@app.command
def verify(*, as_json: Json = False) -> int:
    """Prove the whole journal: sums, hash chain, totals that only grow, balances, holds. Exits with 1 at the first row that is wrong."""
    with _journal() as credits:
        found = credits.verify()
    if as_json:
        print(json.dumps({"sound": found.sound, **asdict(found)}))
    elif found.sound:
        print(f"{found.rows} rows, all of them right")
    else:
        print(f"{f'row {found.seq}' if found.seq else 'beside the rows'}: {found.fault}; {found.rows} rows before it are right")
    return 0 if found.sound else 1


@app.command
def payout(
    *,
    until: Annotated[str, Parameter(help='What was earned before it: a date in UTC such as 2026-12-01, or "2026-12-01T00:00:00Z".')],
    dry_run: Annotated[bool, Parameter(negative="", help="Only show what would be paid.")] = False,
    as_json: Json = False,
) -> int:
    """Post to each provider what he has earned and was not paid. The same again pays nothing."""
    end = months.read_instant(until, "until")
    with _journal() as credits:
        found = credits.payouts(end, dry_run)
    if as_json:
        rows = [{"account": each.account, "amount": str(each.amount), "key": each.key} for each in found]
        print(json.dumps({"until": until, "dry_run": dry_run, "payouts": rows}))
        return 0
    for each in found:
        print(f"{each.account}\t{each.amount}")
    total = sum((each.amount for each in found), start=Credits(0))
    print(f"{'would be' if dry_run else 'are'} paid: {total} credits to {len(found)} provider(s)")
    return 0


@app.command
def export(
    *,
    month: Annotated[str | None, Parameter(help='Only that month of UTC, such as "2026-11".')] = None,
    account: Annotated[str | None, Parameter(help="Only entries of that account, such as user:alice, provider:acme or org.")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="JSON, one entry a line, in place of CSV.")] = False,
) -> int:
    """Print the journal, oldest first, as CSV; amounts are micro-credits. The amounts of each transaction sum to zero."""
    span = months.Month.parse(month) if month is not None else None
    with _journal() as credits:
        found = credits.export(*((span.begin, span.end) if span is not None else (BEGINNING, END)))
        rows = (_row(each) for each in found if account in (None, each.account))
        if as_json:
            for row in rows:
                print(json.dumps(row))
            return 0
        writer = csv.DictWriter(sys.stdout, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


_COLUMNS = ("seq", "at", "transaction", "account", "amount", "kind", "key", "run", "ran_ms", "memo")


def _row(entry: Entry) -> dict[str, str | int]:
    at = months.moment(entry.at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    amount, ran = entry.amount.micro, entry.until.ms
    values = (entry.seq, at, entry.transaction, entry.account, amount, entry.kind, entry.key, entry.run, ran, entry.memo)
    return dict(zip(_COLUMNS, values, strict=True))


@app.command
def grant(user: str, amount: str, *, key: str, memo: str = "") -> int:
    """Give a user credits. key: of this grant; the same key again grants nothing."""
    given = Credits.parse(amount)
    with _journal() as credits:
        posted = credits.post(f"grant/{key}", "grant", {user_account(user): given, ISSUE: -given}, memo)
        balance = credits.account(user_account(user)).balance
    print(f"{'granted' if posted else 'granted before'}; {user} has {balance} credits")
    return 0


@app.command
def plan(user: str, name: str) -> int:
    """Tell a user's plan, "free" or "paid"."""
    with _journal() as credits:
        print(f"{user}: {credits.set_plan(user, name).plan}")
    return 0


@contextmanager
def _journal() -> Iterator[SqliteCredits]:
    settings = load(os.environ).settings
    with closing(open_credits(state_folder(settings.state_dir))) as database:
        credits, points = SqliteCredits(database, clock_of(os.environ, SystemClock())), Failpoints.read(os.environ)
        yield credits if points is None else points.wrapped(credits, "credits")


def main() -> int:
    """Exit codes: 0 done, 1 the journal is wrong, 2 what was asked cannot be, 4 the journal can't be read now."""
    try:
        return int(app(result_action="return_value") or 0)
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 4
    except (WrongSettingsError, GridweaveError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
