"""What a bug report needs, in one zip: settings (secrets masked), versions, last log lines, nodes, unfinished jobs, the audit.

Of a job only what we say of it ourselves goes in: no function, no argument, no environment, no message of its exception.
What can't be read now is said in its place, so that a bundle can be made of a house that is on fire.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import asdict

from core.house import House
from ports.errors import GridweaveError
from ports.wire import converter
from ports.workloads import TERMINAL, Job, JobFilter, Phase
from runtimes import settings_table
from runtimes.log_lines import last_lines
from runtimes.settings import Loaded
from runtimes.version import VERSION
from runtimes.wiring import Wired, wire

PACKAGES = ("gridweave-agent", "gridweave", "ray", "gunicorn", "falcon", "attrs", "cattrs", "httpx", "cloudpickle")
MOST_JOBS = 1_000  # unfinished ones that are described


def write_bundle(loaded: Loaded, file: Path) -> None:
    """Write it, beside whatever runs. Raises OSError if the file can't be written."""
    settings = loaded.settings
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("settings.json", settings_table.as_json(loaded))
        bundle.writestr("versions.json", _json(versions))
        bundle.writestr("log.jsonl", last_lines(settings.state_dir).read())
        try:
            wired = wire(settings, settings.gateway_url or f"http://127.0.0.1:{settings.gateway_port}")
        except GridweaveError as error:
            bundle.writestr("unreadable.txt", str(error))
            return
        try:
            for name, part in _parts(wired):
                bundle.writestr(name, _json(part))
        finally:
            wired.close()


def _parts(wired: Wired) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "scheduler.json", lambda: {"holder": converter.unstructure(wired.leadership.holder()), "epoch": wired.epochs.read()}
    yield "nodes.json", lambda: [converter.unstructure(each) for each in wired.house.nodes.list()]
    yield "phases.json", lambda: phases(wired.house)
    yield "unfinished.json", lambda: [described(job) for job in _jobs(wired.house, frozenset(Phase) - TERMINAL, MOST_JOBS)]
    yield "journal.json", lambda: {name: converter.unstructure(each) for name, each in wired.books().items()}


def _json(make: Callable[[], object]) -> str:
    try:
        said = make()
    except GridweaveError as error:
        said = {"unreadable": str(error)}
    return json.dumps(said, indent=2, default=str)


def versions() -> dict[str, str]:
    found = {
        "gridweave-server": VERSION,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
    }
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def phases(house: House) -> dict[str, int]:
    """How many jobs are in each phase."""
    return dict(Counter(str(job.status.phase) for job in _jobs(house, frozenset(Phase))))


def described(job: Job) -> dict[str, Any]:
    """A job by what we know of it, and nothing that its user wrote."""
    status = job.status
    runs = [
        {
            "run": str(run.id),
            "state": str(run.state),
            "epoch": run.epoch,
            "ran_ms": run.ran.ms,
            "slots": [converter.unstructure(slot) for slot in run.placement],
            "exit": str(run.exit.kind) if run.exit is not None else "",
        }
        for run in status.runs
    ]
    conditions = [{"type": each.type, "status": str(each.status), "reason": each.reason, "at": each.at.ms} for each in status.conditions]
    return {
        "id": job.id,
        "user": job.spec.user,
        "created_at": job.created_at.ms,
        "version": job.version,
        "phase": str(status.phase),
        "reason": status.reason,
        "waiting": status.waiting,
        "cancel": status.cancel.ms if status.cancel is not None else None,
        "ask": asdict(job.spec.ask),
        "runs": runs,
        "conditions": conditions,
    }


def _jobs(house: House, which: frozenset[Phase], most: int | None = None) -> Iterator[Job]:
    cursor, given = "", 0
    while most is None or given < most:
        page = house.workloads.list(JobFilter(phases=which), cursor, 500)
        yield from page.jobs
        given, cursor = given + len(page.jobs), page.cursor
        if not cursor:
            return
