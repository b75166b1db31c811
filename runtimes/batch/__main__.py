"""`python -m runtimes.batch schedule|reconcile|bill|sweep`: the rounds as processes of their own, for a cluster or for cron."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import structlog
from attrs import asdict
from cyclopts import App, Parameter

from core.archive import archive
from core.sweep import sweep as sweep_blobs
from core.tick import tick
from ports.errors import GridweaveError, Invalid, Unavailable
from ports.units import Span
from runtimes import blob_stores, failpoints
from runtimes.batch.host import Host
from runtimes.batch.probe import probe
from runtimes.batch.term import Term
from runtimes.log_lines import last_lines, log_to_stderr
from runtimes.settings import Settings, Store, WrongSettingsError, load
from runtimes.wiring import Part, Wired, wire

app = App(name="python -m runtimes.batch", help=__doc__, help_format="plaintext")
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print the summary as one JSON object.")]
log = structlog.get_logger("gridweave.batch")
RECONCILE_S = 15.0
CONNECT = Span.of(minutes=1)  # a round waits so long for the cluster to answer at all


@app.command
def schedule() -> int:
    """Schedule until stopped by SIGTERM or Ctrl-C.

    With PROBE_PORT it answers there whether it still works.
    With STORE=sqlite it exits with 3 if another process schedules; else it waits, to take over from that one.
    """
    wired, settings = _open(Part.SCHEDULER)
    try:
        if settings.store is Store.SQLITE and not _lead(wired):
            return 3
        host = wired.host(settings)
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: threading.Thread(target=host.stop, daemon=True).start())
        with _probed(host, settings):
            host.run()
        return 0
    finally:
        wired.close()


@app.command
def reconcile(*, seconds: float = RECONCILE_S, as_json: Json = False) -> int:
    """One round for cron: take over, ask every agent, take every step that can be taken, exit.

    seconds: how long it goes on once the cluster has answered; a node that does not answer in that time is by so much closer to
    being given up.
    """
    if not 0 < seconds <= 86_400:
        raise Invalid(f"--seconds is {seconds:g}.", "--seconds", "Give more than 0, and at most 86400; more than 12 is best.", str(seconds))
    wired, _ = _open(Part.SCHEDULER)
    try:
        if not _lead(wired):
            return 3
        cluster = wired.connect()
        elapsed, bound = wired.house.clock.elapsed, Span(int(seconds * 1000))
        began = elapsed()

        def keep() -> bool:
            return elapsed() - term.reached < bound if term.reached is not None else elapsed() - began < bound + CONNECT

        term = Term(wired.house, cluster, wired.epochs, keep)
        try:
            term.run()
            if term.newest and wired.leadership.acquire():  # its epoch was below one that nodes or records know
                term = Term(wired.house, cluster, wired.epochs, keep, term.newest)
                term.run()
        finally:
            wired.leadership.release()
        nodes = wired.house.nodes.list()
        summary = {"nodes": len(nodes), "ready": sum(str(node.status.state) == "Ready" for node in nodes)}
        _say(summary, as_json)
        return 0
    finally:
        wired.close()


@app.command
def bill(*, as_json: Json = False) -> int:
    """One billing round; any number at once is harmless. Exits with 1 if a charge was refused."""
    wired, settings = _open(Part.BILLER)
    try:
        if not settings.credits_enabled:
            _say({"credits_enabled": False}, as_json)
            return 0
        done = tick(wired.house)
        _say(asdict(done), as_json)
        return 1 if done.refused else 0
    finally:
        wired.close()


@app.command
def sweep(*, as_json: Json = False) -> int:
    """Move jobs that ended JOBS_KEPT_HOURS ago to the archive, and delete what is kept no longer: uploads that no submit has
    used for a day, and what ended jobs have left, by KEEP_COMPLETED_DAYS and KEEP_FAILED_DAYS.

    Any number at once is harmless.
    """
    wired, _ = _open(Part.REAPER)
    try:
        _say({**asdict(archive(wired.house)), **asdict(sweep_blobs(wired.house))}, as_json)
        return 0
    finally:
        wired.close()


def _probed(host: Host, settings: Settings) -> AbstractContextManager[object]:
    if not settings.probe_port:
        return nullcontext()
    return probe(settings.host, settings.probe_port, host.silent, lambda: host.scheduling)


def _open(part: Part) -> tuple[Wired, Settings]:
    settings = load(os.environ).settings
    log_to_stderr(last_lines(settings.state_dir.absolute()))
    failpoints.check(os.environ)
    blob_stores.check(settings)
    return wire(settings, settings.gateway_url or f"http://127.0.0.1:{settings.gateway_port}", part), settings


def _lead(wired: Wired) -> bool:
    if wired.leadership.acquire():
        return True
    holder = wired.leadership.holder()
    who = "another process" if holder is None else f"process {holder.pid} ({holder.identity})" if holder.pid else holder.identity
    print(f"{who} schedules here; one is enough.", file=sys.stderr)
    return False


def _say(summary: Mapping[str, object], as_json: bool) -> None:
    print(json.dumps(summary) if as_json else ", ".join(f"{key}: {value}" for key, value in summary.items()))


def main() -> int:
    try:
        return int(app(result_action="return_value") or 0)
    except WrongSettingsError as error:
        print(error, file=sys.stderr)
        return 2
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 4
    except GridweaveError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
