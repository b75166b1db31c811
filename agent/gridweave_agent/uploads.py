"""What a run leaves goes to the blob store by its grant: log chunks while it runs, then result and traceback.

The cut of the log into chunks is recorded before a chunk is sent, so that a successor cuts the same. What can't be
stored is tried for ever, with growing pauses, until a grant is renewed or the run is forgotten; nothing is lost by it.
Whether a grant has expired is for the store to say: this machine's wall clock may be an hour off.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from dataclasses import dataclass, field

from gridweave_agent.protocol import GONE
from gridweave_agent.rundir import read_json, write_json
from gridweave_agent.settings import Settings
from gridweave_agent.table import Run, Table
from gridweave_agent.transfer import TransferError, backoff_s, upload

log = logging.getLogger("gridweave_agent")


@dataclass
class _Plan:
    """How far one run's uploads are. ends: where each log chunk ends. sent: chunks stored. since: when the oldest byte
    of the open chunk came, monotonic seconds."""

    run: Run
    ends: list[int] = field(default_factory=list)
    sent: int = 0
    result_sent: bool = False
    traceback_sent: bool = False
    failures: int = 0
    since: float = 0.0
    due: float = 0.0
    working: bool = False


class Uploads:
    """A few threads and a queue by due time; one upload at a time for each run."""

    def __init__(self, settings: Settings, table: Table, threads: int = 4) -> None:
        self._settings, self._table = settings, table
        self._bell = threading.Condition()
        self._plans: dict[str, _Plan] = {}
        self._queue: list[tuple[float, str]] = []
        self._stopping = False
        self._threads = [threading.Thread(target=self._work, name=f"uploads-{n}", daemon=True) for n in range(threads)]
        for thread in self._threads:
            thread.start()

    def follow(self, run: Run) -> None:
        """Take a run's uploads on, from where a predecessor left them."""
        stored = read_json(run.dir.stored) or {}
        plan = _Plan(run, _ends(run.dir.chunks), int(str(stored.get("chunks", 0))))
        plan.result_sent, plan.traceback_sent = bool(stored.get("result")), bool(stored.get("traceback"))
        with self._bell:
            self._plans[run.id] = plan

    def notice(self, run: Run, *, now: bool = False) -> None:
        """The log grew, or (now) the run is gone or has a fresh grant."""
        with self._bell:
            plan = self._plans.get(run.id)
            if plan is None:
                return
            if now:
                self._put(plan, 0)
            elif not plan.since:
                plan.since = time.monotonic()
                self._put(plan, self._settings.chunk_age_ms / 1000)
            elif run.log_bytes - (plan.ends[-1] if plan.ends else 0) >= self._settings.chunk_bytes and plan.failures == 0:
                self._put(plan, 0)

    def forget(self, run: Run) -> None:
        with self._bell:
            self._plans.pop(run.id, None)

    def stop(self) -> None:
        with self._bell:
            self._stopping = True
            self._bell.notify_all()

    def _put(self, plan: _Plan, seconds: float) -> None:
        plan.due = time.monotonic() + seconds
        heapq.heappush(self._queue, (plan.due, plan.run.id))
        self._bell.notify()

    def _take(self) -> _Plan | None:
        """The next plan that is due; None to end."""
        with self._bell:
            while not self._stopping:
                now = time.monotonic()
                if self._queue and self._queue[0][0] <= now:
                    due, run = heapq.heappop(self._queue)
                    plan = self._plans.get(run)
                    if plan is None or due != plan.due:
                        continue  # forgotten, or put again since
                    if plan.working:
                        self._put(plan, 0.05)
                        continue
                    plan.working = True
                    return plan
                self._bell.wait(self._queue[0][0] - now if self._queue else None)
        return None

    def _work(self) -> None:
        while (plan := self._take()) is not None:
            due = plan.due
            try:
                pause = self._step(plan)
            except Exception as error:
                log.exception("run %s: an upload went wrong", plan.run.id)
                pause = self._failed(plan, str(error))
            with self._bell:
                plan.working = False
                if pause is not None and plan.due == due:
                    self._put(plan, pause)

    def _step(self, plan: _Plan) -> float | None:
        """Upload one thing; seconds until the next look, None to wait for notice."""
        run = plan.run
        if run.stored:
            return None
        gone = run.state == GONE  # looked at first: nothing comes after it, so that what is pending then is all
        if not self._pending(plan, gone):
            if gone:
                self._finish(plan)
            return None if gone else self._patience(plan)
        try:
            self._upload_next(plan)
        except (TransferError, OSError) as error:
            return self._failed(plan, str(error))
        plan.failures = 0
        if run.stored_error:
            self._say(run, "")
        return 0

    def _patience(self, plan: _Plan) -> float | None:
        """Seconds until the open chunk is old; None if there is none."""
        return max(0.01, plan.since + self._settings.chunk_age_ms / 1000 - time.monotonic()) if plan.since else None

    def _pending(self, plan: _Plan, gone: bool) -> bool:
        """Whether anything is to be sent now; closes the open log chunk if it is full, old or the last."""
        run = plan.run
        if gone and not plan.result_sent and run.result is not None:
            return True
        if plan.sent < len(plan.ends):
            return True
        last = plan.ends[-1] if plan.ends else 0
        size = _size(run.dir.log)
        old = plan.since and time.monotonic() >= plan.since + self._settings.chunk_age_ms / 1000
        if size - last >= self._settings.chunk_bytes or (size > last and (gone or old)):
            end = min(size, last + self._settings.chunk_bytes)
            with open(run.dir.chunks, "ab") as file:
                file.write(f"{end}\n".encode())
            plan.ends.append(end)
            plan.since = time.monotonic() if end < size else 0.0
            return True
        return bool(gone and not plan.traceback_sent and run.exit is not None and run.exit.traceback)

    def _upload_next(self, plan: _Plan) -> None:
        run, grant = plan.run, plan.run.output
        if run.state == GONE and not plan.result_sent and run.result is not None:
            upload(grant, "result", run.dir.result, sha256=run.result.sha256)
            plan.result_sent = True
        elif plan.sent < len(plan.ends):
            start = plan.ends[plan.sent - 1] if plan.sent else 0
            upload(grant, f"logs/0/{plan.sent:09d}", run.dir.log, start, plan.ends[plan.sent])
            plan.sent += 1
        else:
            path = f"{run.dir.path}/traceback.txt"
            with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(run.exit.traceback if run.exit else "")
            upload(grant, "traceback.txt", path)
            plan.traceback_sent = True
        self._keep(plan)

    def _keep(self, plan: _Plan) -> None:
        progress = {"chunks": plan.sent, "result": plan.result_sent, "traceback": plan.traceback_sent}
        write_json(plan.run.dir.stored, progress, sync=False)

    def _finish(self, plan: _Plan) -> None:
        def change(run: Run) -> None:
            run.stored, run.stored_error = True, ""

        self._table.change(plan.run, change)

    def _failed(self, plan: _Plan, text: str) -> float:
        plan.failures += 1
        self._say(plan.run, text)
        return backoff_s(plan.failures - 1, self._settings.upload_retry_ms)

    def _say(self, run: Run, text: str) -> None:
        def change(run: Run) -> None:
            run.stored_error = text[:1000]

        if run.stored_error != text[:1000]:
            self._table.change(run, change)


def _ends(path: str) -> list[int]:
    """Where the chunks end that were cut so far; a torn last line was never acted upon."""
    try:
        with open(path, "rb+") as file:
            *lines, torn = file.read().split(b"\n")
            file.truncate(file.tell() - len(torn))
            return [int(line) for line in lines]
    except FileNotFoundError:
        return []


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
