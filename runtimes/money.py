"""Who keeps the balances and who takes usage events: decided by CREDITS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from attrs import frozen

from adapters.remote.credits import RemoteCredits, line_to_credits
from adapters.remote.metering import RemoteMetering, line_to_metering
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.metering import SqliteMetering
from adapters.sqlite.schema import open_credits
from ports.clock import Clock
from ports.credits import ISSUE, CreditService, user_account
from ports.errors import Unavailable
from ports.metering import Metering
from ports.units import Credits
from runtimes.settings import CreditsBackend, Settings

DEMO_USER = "demo"
DEMO_CREDITS = Credits(1_000 * 1_000_000)


@frozen
class Money:
    """books: the proof of the journal, and the alarms, where they are ours to look at."""

    credits: CreditService
    metering: Metering
    books: Callable[[], dict[str, object]]


def open_money(settings: Settings, folder: Path, clock: Clock, opened: ExitStack) -> Money:
    """What is opened is closed by `opened`. Raises Unavailable, Refused."""
    made = _over_http(settings, opened) if settings.credits is CreditsBackend.HTTP else _embedded(folder, clock, opened)
    if settings.demo:
        _pay_the_demo(made.credits)
    return made


def _embedded(folder: Path, clock: Clock, opened: ExitStack) -> Money:
    database = open_credits(folder)
    opened.callback(database.close)
    credits = SqliteCredits(database, clock)

    def books() -> dict[str, object]:
        return {"audit": credits.verify(), "alarms": credits.alarms()}

    return Money(credits, SqliteMetering(database), books)


def _over_http(settings: Settings, opened: ExitStack) -> Money:
    token = settings.admin_token.get_secret_value()
    credits, metering = line_to_credits(settings.credit_service_url, token), line_to_metering(settings.metering_url, token)
    opened.callback(credits.close)
    opened.callback(metering.close)
    return Money(RemoteCredits(credits), RemoteMetering(metering), lambda: {"audit": "the journal is the credit service's"})


def _pay_the_demo(credits: CreditService) -> None:
    """Once, however often the demo starts. Its user says himself that his plan is paid; only our own service is told so."""
    if isinstance(credits, SqliteCredits):
        credits.set_plan(DEMO_USER, "paid")
    try:
        credits.post("demo-credits", "grant", {user_account(DEMO_USER): DEMO_CREDITS, ISSUE: -DEMO_CREDITS}, "Credits of the demo")
    except Unavailable:
        if isinstance(credits, SqliteCredits):
            raise  # a service that is away now is asked at the next start
