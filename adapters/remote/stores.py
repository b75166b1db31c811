"""Workloads, node records, tariffs and the epoch of a control service."""

from __future__ import annotations

from adapters.remote.line import Line
from ports.job_control import DismissableWorkloads
from ports.leadership import Epochs
from ports.nodes import NodeRecord, NodeRecords
from ports.tariffs import Tariff, Tariffs
from ports.units import Instant, Span
from ports.workloads import Changes, Job, JobFilter, Page


class RemoteWorkloads:
    """`ports.job_control.DismissableWorkloads`. The line is the caller's to close."""

    draws_uids = True  # as far as is known here: what is behind the service may

    def __init__(self, line: Line) -> None:
        self._line = line

    def create(self, job: Job) -> Job:
        made: Job = self._line.call("workloads", DismissableWorkloads.create, job)
        return made

    def get(self, job_id: str) -> Job | None:
        found: Job | None = self._line.call("workloads", DismissableWorkloads.get, job_id)
        return found

    def peek(self, job_id: str) -> Job | None:
        """Nothing is known here without asking."""
        return None

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        page: Page = self._line.call("workloads", DismissableWorkloads.list, which, cursor, limit, newest_first)
        return page

    def replace(self, job: Job) -> Job:
        stored: Job = self._line.call("workloads", DismissableWorkloads.replace, job)
        return stored

    def delete(self, job: Job) -> None:
        self._line.call("workloads", DismissableWorkloads.delete, job)

    def dismiss(self, job: Job) -> None:
        self._line.call("workloads", DismissableWorkloads.dismiss, job)

    def changes(self, cursor: str, wait: Span = Span(0)) -> Changes:
        """The service waits for half a minute at most."""
        found: Changes = self._line.call_patiently(wait.seconds, "workloads", DismissableWorkloads.changes, cursor, wait)
        return found


class RemoteNodes:
    """`ports.nodes.NodeRecords`."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def get(self, name: str) -> NodeRecord | None:
        found: NodeRecord | None = self._line.call("nodes", NodeRecords.get, name)
        return found

    def list(self) -> tuple[NodeRecord, ...]:
        found: tuple[NodeRecord, ...] = self._line.call("nodes", NodeRecords.list)
        return found

    def put_spec(self, record: NodeRecord) -> NodeRecord:
        stored: NodeRecord = self._line.call("nodes", NodeRecords.put_spec, record)
        return stored

    def put_status(self, record: NodeRecord) -> NodeRecord:
        stored: NodeRecord = self._line.call("nodes", NodeRecords.put_status, record)
        return stored

    def delete(self, name: str) -> None:
        self._line.call("nodes", NodeRecords.delete, name)


class RemoteTariffs:
    """`ports.tariffs.Tariffs`."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def in_force(self, at: Instant) -> Tariff:
        found: Tariff = self._line.call("tariffs", Tariffs.in_force, at)
        return found

    def history(self) -> tuple[Tariff, ...]:
        found: tuple[Tariff, ...] = self._line.call("tariffs", Tariffs.history)
        return found

    def publish(self, tariff: Tariff) -> Tariff:
        stored: Tariff = self._line.call("tariffs", Tariffs.publish, tariff)
        return stored


class RemoteEpochs:
    """`ports.leadership.Epochs`."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def read(self) -> int:
        newest: int = self._line.call("epochs", Epochs.read)
        return newest

    def raise_to(self, epoch: int, seen: int) -> None:
        self._line.call("epochs", Epochs.raise_to, epoch, seen)
