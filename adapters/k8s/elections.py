"""The scheduler's Lease for candidates elsewhere, who ask through the control service.

A candidate judges by the clock of whoever watches the Lease for him: it is expired when nobody renewed it for as long as
it lasts. He himself knows for how long he may count on what he was told (`adapters.remote.leadership`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from adapters.k8s.client import KubeClient
from adapters.k8s.leadership import NAME, LeaseLeadership, Pace, boottime
from ports.leadership import Holder
from ports.units import Span

CANDIDATES = 64  # processes that are remembered; each has a fresh identity


class LeaseElections:
    """`ports.leadership.Elections`. elapsed: a clock that neither jumps nor stops."""

    def __init__(self, client: KubeClient, name: str = NAME, elapsed: Callable[[], Span] = boottime) -> None:
        self._client, self._name, self._elapsed = client, name, elapsed
        self._candidates: OrderedDict[tuple[str, Span], LeaseLeadership] = OrderedDict()
        self._mutex = threading.Lock()

    def stand(self, identity: str, lasts: Span) -> bool:
        return self._candidate(identity, lasts).renew()

    def resign(self, identity: str) -> None:
        """Also of a candidate that another replica of this service, or this one before its restart, has answered."""
        with self._mutex:
            for key in [each for each in self._candidates if each[0] == identity]:
                del self._candidates[key]
        LeaseLeadership(self._client, identity, self._name).give_up()

    def holder(self) -> Holder | None:
        return LeaseLeadership(self._client, "", self._name).holder()

    def _candidate(self, identity: str, lasts: Span) -> LeaseLeadership:
        key = identity, lasts
        with self._mutex:
            found = self._candidates.pop(key, None) or LeaseLeadership(self._client, identity, self._name, Pace.of(lasts), self._elapsed)
            self._candidates[key] = found
            while len(self._candidates) > CANDIDATES:
                self._candidates.popitem(last=False)
            return found
