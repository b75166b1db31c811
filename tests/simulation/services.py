"""The services as core meets them in the simulation: those in memory, behind the faults."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence

from ports.blobs import BlobInfo, Grant
from ports.credits import BEGINNING, END, Account, Charge, ChargeAnswer, Entry, HoldAnswer
from ports.metering import Usage
from ports.nodes import NodeRecord
from ports.tariffs import Tariff
from ports.units import Credits, Instant, Span
from ports.workloads import Changes, Job, JobFilter, Page
from tests.memory.blobs import MemoryBlobs
from tests.memory.credits import MemoryCredits
from tests.memory.epochs import MemoryEpochs
from tests.memory.metering import MemoryMetering
from tests.memory.nodes import MemoryNodes
from tests.memory.tariffs import MemoryTariffs
from tests.memory.workloads import MemoryWorkloads
from tests.simulation.faults import Faults


class SimClock:
    """Elapsed time moves when it is told to; the wall clock is that, plus whatever it has jumped by."""

    def __init__(self) -> None:
        self.ms, self.jumped = 0, 0

    def now(self) -> Instant:
        return Instant(1_764_500_000_000 + self.ms + self.jumped)

    def elapsed(self) -> Span:
        return Span(self.ms)


class SimRandomness:
    def __init__(self, source: random.Random) -> None:
        self._source = source

    def token(self) -> str:
        return f"{self._source.getrandbits(128):032x}"


class SimWorkloads:
    """`ports.workloads.Workloads`."""

    draws_uids = False

    def __init__(self, real: MemoryWorkloads, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def create(self, job: Job) -> Job:
        return self._faults.io("store.create", lambda: self._real.create(job))

    def get(self, job_id: str) -> Job | None:
        return self._faults.io("store.get", lambda: self._real.get(job_id))

    def peek(self, job_id: str) -> Job | None:
        return None

    def list(self, which: JobFilter = JobFilter(), cursor: str = "", limit: int = 100, newest_first: bool = False) -> Page:
        return self._faults.io("store.list", lambda: self._real.list(which, cursor, limit, newest_first))

    def replace(self, job: Job) -> Job:
        return self._faults.io("store.replace", lambda: self._replace(job))

    def _replace(self, job: Job) -> Job:
        written = self._real.replace(job)
        runs = ", ".join(f"{run.id.attempt}:{run.state}" for run in job.status.runs)
        self._faults.log.append(f"{job.id} v{job.version}>v{written.version} {job.status.phase} [{runs}]")
        return written

    def delete(self, job: Job) -> None:
        self._faults.io("store.delete", lambda: self._real.delete(job))

    def changes(self, cursor: str, wait: Span = Span(0)) -> Changes:
        return self._faults.io("store.changes", lambda: self._real.changes(cursor))


class SimNodes:
    """`ports.nodes.NodeRecords`."""

    def __init__(self, real: MemoryNodes, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def get(self, name: str) -> NodeRecord | None:
        return self._faults.io("store.node_get", lambda: self._real.get(name))

    def list(self) -> tuple[NodeRecord, ...]:
        return self._faults.io("store.nodes", self._real.list)

    def put_spec(self, record: NodeRecord) -> NodeRecord:
        return self._faults.io("store.put_spec", lambda: self._real.put_spec(record))

    def put_status(self, record: NodeRecord) -> NodeRecord:
        return self._faults.io("store.put_status", lambda: self._real.put_status(record))

    def delete(self, name: str) -> None:
        self._faults.io("store.node_delete", lambda: self._real.delete(name))


class SimEpochs:
    """`ports.leadership.Epochs`."""

    def __init__(self, real: MemoryEpochs, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def read(self) -> int:
        return self._faults.io("store.epoch", self._real.read)

    def raise_to(self, epoch: int, seen: int) -> None:
        self._faults.io("store.raise_epoch", lambda: self._real.raise_to(epoch, seen))


class SimCredits:
    """`ports.credits.CreditService`."""

    def __init__(self, real: MemoryCredits, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def account(self, name: str) -> Account:
        return self._faults.io("credits.account", lambda: self._real.account(name))

    def set_cap(self, account: str, cap: Credits | None) -> Account:
        return self._faults.io("credits.set_cap", lambda: self._real.set_cap(account, cap))

    def authorise(self, key: str, account: str, amount: Credits) -> HoldAnswer:
        return self._faults.io("credits.authorise", lambda: self._real.authorise(key, account, amount))

    def void(self, key: str) -> None:
        self._faults.io("credits.void", lambda: self._real.void(key))

    def charge(self, charges: Sequence[Charge]) -> tuple[ChargeAnswer, ...]:
        return self._faults.io("credits.charge", lambda: self._real.charge(charges))

    def post(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        return self._faults.io("credits.post", lambda: self._real.post(key, kind, lines, memo))

    def journal(
        self, account: str, after: int = 0, limit: int = 1000, since: Instant = BEGINNING, until: Instant = END
    ) -> tuple[Entry, ...]:
        return self._faults.io("credits.journal", lambda: self._real.journal(account, after, limit, since, until))

    def capture(self, key: str, kind: str, lines: dict[str, Credits], memo: str = "") -> bool:
        return self._faults.io("credits.capture", lambda: self._real.capture(key, kind, lines, memo))

    def turnover(self, account: str, since: Instant, until: Instant) -> dict[str, Credits]:
        return self._faults.io("credits.turnover", lambda: self._real.turnover(account, since, until))


class SimTariffs:
    """`ports.tariffs.Tariffs`."""

    def __init__(self, real: MemoryTariffs, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def in_force(self, at: Instant) -> Tariff:
        return self._faults.io("tariffs.in_force", lambda: self._real.in_force(at))

    def history(self) -> tuple[Tariff, ...]:
        return self._faults.io("tariffs.history", self._real.history)

    def publish(self, tariff: Tariff) -> Tariff:
        return self._faults.io("tariffs.publish", lambda: self._real.publish(tariff))


class SimBlobs:
    """`ports.blobs.BlobStore`. Grants are computed where they are made, as a presigned URL is: no I/O."""

    def __init__(self, real: MemoryBlobs, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def put(self, key: str, data: Iterable[bytes], only_new: bool = False) -> BlobInfo:
        return self._faults.io("blobs.put", lambda: self._real.put(key, data, only_new))

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        return self._faults.io("blobs.get", lambda: self._real.get(key, offset, length))

    def join(self, keys: Iterable[str]) -> Iterator[bytes]:
        return self._faults.io("blobs.join", lambda: self._real.join(keys))

    def stat(self, key: str) -> BlobInfo | None:
        return self._faults.io("blobs.stat", lambda: self._real.stat(key))

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        return self._faults.io("blobs.list", lambda: self._real.list(prefix))

    def copy(self, source: str, target: str) -> BlobInfo:
        return self._faults.io("blobs.copy", lambda: self._real.copy(source, target))

    def delete(self, key: str) -> None:
        self._faults.io("blobs.delete", lambda: self._real.delete(key))

    def grant_read(self, key: str, expires: Instant) -> Grant:
        return self._real.grant_read(key, expires)

    def grant_write(self, prefix: str, max_size: int, expires: Instant) -> Grant:
        return self._real.grant_write(prefix, max_size, expires)


class SimMetering:
    """`ports.metering.Metering`."""

    def __init__(self, real: MemoryMetering, faults: Faults) -> None:
        self._real, self._faults = real, faults

    def record(self, usage: Sequence[Usage]) -> None:
        self._faults.io("metering.record", lambda: self._real.record(usage))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
