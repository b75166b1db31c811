"""A credit service over HTTP. Every call is safe to repeat, so the line repeats what got no answer."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.remote.line import Line
from ports.credits import BEGINNING, END, Account, Charge, ChargeAnswer, Entry, HoldAnswer, OperatedCredits
from ports.units import Credits, Instant

WHAT = "the credit service"
TRIES = 4


def line_to_credits(url: str, token: str) -> Line:
    """The caller closes it."""
    return Line(url, token, what=WHAT, tries=TRIES, ours=True)


class RemoteCredits:
    """`ports.credits.OperatedCredits`. The line is the caller's to close."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def account(self, name: str) -> Account:
        found: Account = self._line.call("credits", OperatedCredits.account, name)
        return found

    def set_plan(self, user: str, plan: str) -> Account:
        found: Account = self._line.call("credits", OperatedCredits.set_plan, user, plan)
        return found

    def set_cap(self, account: str, cap: Credits | None) -> Account:
        found: Account = self._line.call("credits", OperatedCredits.set_cap, account, cap)
        return found

    def authorise(self, key: str, account: str, amount: Credits) -> HoldAnswer:
        answer: HoldAnswer = self._line.call("credits", OperatedCredits.authorise, key, account, amount)
        return answer

    def void(self, key: str) -> None:
        self._line.call("credits", OperatedCredits.void, key)

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        if not charges:
            return ()
        answers: tuple[ChargeAnswer, ...] = self._line.call("credits", OperatedCredits.charge, charges)
        return answers

    def post(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        """After a repeat `False` may be the answer to what this very call has posted."""
        posted: bool = self._line.call("credits", OperatedCredits.post, key, kind, lines, memo)
        return posted

    def capture(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        """Likewise."""
        captured: bool = self._line.call("credits", OperatedCredits.capture, key, kind, lines, memo)
        return captured

    def journal(
        self, account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END
    ) -> tuple[Entry, ...]:
        entries: tuple[Entry, ...] = self._line.call("credits", OperatedCredits.journal, account, after, limit, since, until)
        return entries

    def turnover(self, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
        sums: dict[str, Credits] = self._line.call("credits", OperatedCredits.turnover, account, since, until)
        return sums
