"""Who schedules: the process that holds a Lease, by the rules of client-go's leader election.

A candidate judges by its own clock alone: a Lease is expired when it has not seen it change for as long as it lasts,
so clocks of different machines need not agree. A holder renews every few seconds, and counts as deposed when it could
not for `RENEW_DEADLINE`, which is shorter than a Lease lasts. The identity must be fresh in each process: one who comes back
under his predecessor's would take the Lease without a change that anybody could see.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from attrs import frozen
from kubernetes.client import V1Lease, V1LeaseSpec, V1ObjectMeta

from adapters.k8s.client import KubeClient
from adapters.k8s.objects import AbsentError, answers
from ports.errors import Conflict, Unavailable
from ports.leadership import Holder
from ports.units import Span

# client-go's defaults
DURATION = Span.of(seconds=15)
RENEW_DEADLINE = Span.of(seconds=10)
RETRY = Span.of(seconds=2)
NAME = "gridweave-scheduler"
_TIMEOUT = (3.05, 5.0)  # seconds: a request that hangs must not outlast the deadline


def boottime() -> Span:
    """Goes on while the machine sleeps or the process is stopped."""
    return Span(int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000))


@frozen
class Pace:
    """duration: of a Lease that is not renewed. deadline: after it a holder gives up. retry: between two renewals."""

    duration: Span = DURATION
    deadline: Span = RENEW_DEADLINE
    retry: Span = RETRY

    @staticmethod
    def of(duration: Span) -> Pace:
        """The other two in client-go's proportions."""
        return Pace(duration, Span(duration.ms * 2 // 3), Span(duration.ms * 2 // 15))


class LeaseLeadership:
    """`ports.leadership.Leadership`. identity: fresh in each process. elapsed: a clock that neither jumps nor stops."""

    def __init__(
        self, client: KubeClient, identity: str, name: str = NAME, pace: Pace = Pace(), elapsed: Callable[[], Span] = boottime
    ) -> None:
        self._api, self._namespace, self._name = client.coordination, client.namespace, name
        self._identity, self._pace, self._elapsed = identity, pace, elapsed
        self._mutex = threading.Lock()
        self._seen: tuple[object, ...] | None = None  # what the Lease said when it last changed
        self._seen_at = Span(0)
        self._renewed: Span | None = None  # when this process last took or renewed it; None: it does not hold it

    def acquire(self) -> bool:
        with self._mutex:
            now = self._elapsed()
            if self._renewed is not None and now - self._renewed < self._pace.retry:
                return True
            try:
                return self._renew(now)
            except Unavailable:
                if self._renewed is None:
                    raise
                held = self._elapsed() - self._renewed < self._pace.deadline  # also by what that request took
                if not held:
                    self._renewed = None
                return held

    def renew(self) -> bool:
        """Likewise, but asks at all events. Raises Unavailable, also while what was renewed before still lasts."""
        with self._mutex:
            return self._renew(self._elapsed())

    def _renew(self, now: Span) -> bool:
        try:
            held = self._take_or_renew(now)
        except Conflict:
            held = False  # another one was faster
        self._renewed = now if held else None
        return held

    def release(self) -> None:
        with self._mutex:
            if self._renewed is None:
                return
            self._give_up()

    def give_up(self) -> None:
        """Likewise, also of a Lease that was taken under this identity elsewhere."""
        with self._mutex:
            self._give_up()

    def _give_up(self) -> None:
        self._renewed = None
        lease = self._read()
        if lease is None or lease.spec is None or lease.spec.holder_identity != self._identity:
            return
        lease.spec.holder_identity = ""
        lease.spec.lease_duration_seconds = 1
        lease.spec.renew_time = lease.spec.acquire_time = datetime.now(UTC)
        try:
            self._replace(lease)
        except Conflict:
            return

    def holder(self) -> Holder | None:
        lease = self._read()
        if lease is None or lease.spec is None or not lease.spec.holder_identity:
            return None
        return Holder(lease.spec.holder_identity)

    def _take_or_renew(self, now: Span) -> bool:
        lease = self._read()
        if lease is None:
            return self._create(now)
        spec = lease.spec or V1LeaseSpec()
        self._observe(spec, now)
        mine = spec.holder_identity == self._identity
        lasts = Span.of(seconds=spec.lease_duration_seconds or 0)
        if spec.holder_identity and not mine and now - self._seen_at < lasts:
            return False
        wall = datetime.now(UTC)
        if not mine:
            spec.acquire_time = wall
            spec.lease_transitions = (spec.lease_transitions or 0) + 1
        spec.holder_identity = self._identity
        spec.lease_duration_seconds = max(1, round(self._pace.duration.seconds))
        spec.renew_time = wall
        lease.spec = spec
        stored = self._replace(lease)
        self._observe(stored.spec, now)
        return True

    def _observe(self, spec: V1LeaseSpec, now: Span) -> None:
        said = spec.holder_identity, spec.acquire_time, spec.renew_time, spec.lease_transitions
        if said != self._seen:
            self._seen, self._seen_at = said, now

    def _read(self) -> V1Lease | None:
        try:
            with answers("lease"):
                found: V1Lease = self._api.read_namespaced_lease(self._name, self._namespace, _request_timeout=_TIMEOUT)
                return found
        except AbsentError:
            return None

    def _create(self, now: Span) -> bool:
        wall = _micro(datetime.now(UTC))
        spec = V1LeaseSpec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, round(self._pace.duration.seconds)),
            acquire_time=wall,
            renew_time=wall,
            lease_transitions=0,
        )
        lease = V1Lease(metadata=V1ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
        with answers("lease"):
            stored = self._api.create_namespaced_lease(self._namespace, lease, _request_timeout=_TIMEOUT)
        self._observe(stored.spec, now)
        return True

    def _replace(self, lease: V1Lease) -> V1Lease:
        """By the resourceVersion that was read."""
        lease.spec.acquire_time, lease.spec.renew_time = _micro(lease.spec.acquire_time), _micro(lease.spec.renew_time)
        try:
            with answers("lease"):
                stored: V1Lease = self._api.replace_namespaced_lease(self._name, self._namespace, lease, _request_timeout=_TIMEOUT)
                return stored
        except AbsentError as error:
            raise Conflict("lease") from error


def _micro(at: datetime | None) -> datetime | None:
    """The library writes a whole second without a fraction, and the API wants six digits of it."""
    return at.replace(microsecond=1) if at is not None and at.microsecond == 0 else at
