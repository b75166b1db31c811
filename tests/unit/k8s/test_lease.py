"""A holder of the Lease whose request gets no answer, by a clock of the test's own."""

from __future__ import annotations

from typing import Any, cast

import pytest
import urllib3
from kubernetes.client import V1Lease, V1LeaseSpec, V1ObjectMeta

from adapters.k8s.client import KubeClient
from adapters.k8s.elections import LeaseElections
from adapters.k8s.leadership import RENEW_DEADLINE, RETRY, LeaseLeadership
from ports.errors import Unavailable
from ports.units import Span
from tests.memory.clock import ManualClock


class Api:
    """Answers until it hangs: then a request takes so long, and fails."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.hangs, self.spec = clock, Span(0), V1LeaseSpec()

    def read_namespaced_lease(self, name: str, namespace: str, **_: Any) -> V1Lease:
        if self.hangs > Span(0):
            self.clock.advance(self.hangs)
            raise urllib3.exceptions.ReadTimeoutError(cast(Any, None), "", "no answer")
        return V1Lease(metadata=V1ObjectMeta(name=name, namespace=namespace), spec=self.spec)

    def replace_namespaced_lease(self, name: str, namespace: str, lease: V1Lease, **_: Any) -> V1Lease:
        self.spec = lease.spec
        return lease


class Client:
    namespace = "here"

    def __init__(self, api: Api) -> None:
        self.coordination = api


@pytest.mark.parametrize("late", [Span(0), Span.of(seconds=3600)])
def test_the_time_that_a_request_took_counts(late: Span) -> None:
    """Another one may hold the Lease by the time that the holder, or his answer, comes back."""
    clock = ManualClock()
    api = Api(clock)
    holder = LeaseLeadership(cast(KubeClient, Client(api)), "me", elapsed=clock.elapsed)
    assert holder.acquire()
    clock.advance(RETRY)
    api.hangs = Span(RENEW_DEADLINE.ms - RETRY.ms) + late
    assert not holder.acquire()
    with pytest.raises(Unavailable):
        holder.acquire()


def test_a_holder_stays_one_until_his_deadline() -> None:
    clock = ManualClock()
    api = Api(clock)
    holder = LeaseLeadership(cast(KubeClient, Client(api)), "me", elapsed=clock.elapsed)
    assert holder.acquire()
    clock.advance(RETRY)
    api.hangs = Span(RENEW_DEADLINE.ms - RETRY.ms - 1)
    assert holder.acquire()


def test_a_candidate_may_resign_at_another_replica() -> None:
    """Else its successor waits until the Lease expires."""
    api = Api(ManualClock())
    client = cast(KubeClient, Client(api))
    one, other = LeaseElections(client), LeaseElections(client)
    assert one.stand("me", Span.of(seconds=15))
    assert not other.stand("you", Span.of(seconds=15))
    other.resign("you")
    assert "me" == api.spec.holder_identity
    other.resign("me")
    assert other.stand("you", Span.of(seconds=15))
