"""`status` and `cancel`."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.text import Text

from gridweave.commands.ids import JobId, full_id
from gridweave.commands.options import COMMON, Common
from gridweave.commands.output import cancelling, phase
from gridweave.commands.times import credited, ran
from gridweave.errors import GridweaveError
from gridweave.jobs import TERMINAL
from gridweave.progress import place


def status(id: JobId, /, *, common: Common = COMMON) -> int:
    """Show what is known of a job."""
    output, client = common.output(), common.client()
    facts = client.status(full_id(client, id))
    if output.json:
        output.emit(facts)
        return 0
    ended = facts.get("exit") or {}
    over = facts.get("phase") in TERMINAL
    waits = ": ".join(str(facts[key]) for key in ("position", "waiting") if facts.get(key))
    shown: dict[str, str | Text] = {
        "id": str(facts["id"]),
        "name": str(facts.get("name") or ""),
        "user": str(facts.get("user") or ""),
        "phase": phase(str(facts.get("phase") or ""), cancelling(facts)),
        "reason": str(facts.get("reason") or ""),
        "message": str(facts.get("message") or ""),
        "queue": waits if facts.get("phase") == "Pending" else "",
        "set-up": str(facts.get("setup") or ""),
        "where": place(facts.get("placement") or ()),
        "attempt": str(facts.get("attempt") or ""),
        "created": str(facts.get("created_at") or ""),
        "started": str(facts.get("started_at") or ""),
        "cancelled at": str(facts.get("cancel_requested_at") or ""),
        "finished": str(facts.get("finished_at") or ""),
        "ran": ran(facts, datetime.now(UTC)),
        "rate": f"{facts['rate_per_hour']} credits per hour" if facts.get("rate_per_hour") else "",
        "held": f"{facts.get('held', facts['hold'])} credits" if facts.get("hold") and not over else "",
        "charged": f"{facts['charged']} credits{_for(credited(facts))}" if facts.get("charged") else "",
        "cap": f"{facts['cap']} credits" if facts.get("cap") else "",
        "money ends": facts.get("money_ends_at") or "",
        "exit": " ".join(str(ended[key]) for key in ("kind", "code", "signal", "message") if ended.get(key) not in (None, "")),
        "labels": ", ".join(f"{key}={value}" for key, value in (facts.get("labels") or {}).items()),
    }
    output.fields(shown)
    if ended.get("log_tail") and facts.get("phase") == "Failed":
        output.line("last lines of its log:")
        output.line(str(ended["log_tail"]).rstrip())
    return 0


def _for(running_time: str) -> str:
    return f", for the {running_time} that its node has told of" if running_time else ""


def cancel(id: JobId, /, *more: JobId, common: Common = COMMON) -> int:
    """Ask for the end of one or several jobs; they are Cancelled when their processes are gone."""
    output, client = common.output(), common.client()
    answers, failed = [], None
    for each in (id, *more):
        try:
            answers.append(client.cancel(full_id(client, each)))
        except GridweaveError as error:
            failed = failed or error
            continue
        facts = answers[-1]
        over = facts.get("phase") in TERMINAL
        if not output.json:
            output.line(f"{facts['id']}\t{'had ended before: ' if over else 'cancelling, now '}{facts.get('phase')}")
    if output.json and not failed:
        output.emit({"jobs": answers})
    if failed is not None:
        raise failed
    return 0
