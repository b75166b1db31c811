"""What every lock of the scheduler keeps to: one holder at a time, asked for without waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import pytest
from kubernetes.client import ApiClient, Configuration

from adapters.k8s.client import KubeClient
from adapters.k8s.leadership import DURATION, NAME, RENEW_DEADLINE, RETRY, LeaseLeadership
from adapters.remote.leadership import RemoteLeadership
from adapters.remote.line import Line
from adapters.sqlite.leadership import FileLeadership
from ports.errors import Unavailable
from ports.leadership import Holder, Leadership
from ports.units import Span
from tests.contract.races import ROOT, in_threads
from tests.kube.control import TOKEN, control
from tests.kube.plane import free_port
from tests.memory.clock import ManualClock


class Candidates(Protocol):
    """One more candidate for the same lock, released at the test's end."""

    def __call__(self, identity: str) -> Leadership: ...


class LeadershipContract:
    """Give a fixture `candidate`: a factory of candidates for one lock that nobody holds."""

    def test_nobody_holds_it_at_first(self, candidate: Candidates) -> None:
        """Asking must neither fail nor take it."""
        assert candidate("a").holder() is None
        assert candidate("b").acquire()

    def test_one_holds_it_at_a_time(self, candidate: Candidates) -> None:
        """Two schedulers would book the same GPUs, were it not for the epoch."""
        first, second = candidate("a"), candidate("b")
        assert first.acquire()
        assert not second.acquire()
        assert not second.acquire()

    def test_the_holder_may_ask_again(self, candidate: Candidates) -> None:
        """Each round begins with it: the answer tells whether one still is the scheduler."""
        first, second = candidate("a"), candidate("b")
        assert [True, True, False, True] == [first.acquire(), first.acquire(), second.acquire(), first.acquire()]

    def test_everybody_sees_who_holds_it(self, candidate: Candidates) -> None:
        """A cron round beside a holder says whom it met."""
        first, second = candidate("a"), candidate("b")
        first.acquire()
        second.acquire()
        assert ["a", "a"] == [holder.identity for each in (first, second) if (holder := each.holder())]

    def test_a_released_lock_is_free(self, candidate: Candidates) -> None:
        """A gateway that ends hands over at once."""
        first, second = candidate("a"), candidate("b")
        first.acquire()
        first.release()
        assert second.holder() is None
        assert second.acquire()
        assert not first.acquire()

    def test_a_release_of_what_one_does_not_hold_changes_nothing(self, candidate: Candidates) -> None:
        """Whoever ends releases, without knowing whether he was the one."""
        first, second = candidate("a"), candidate("b")
        second.release()
        first.acquire()
        second.release()
        assert not second.acquire()

    def test_of_threads_that_ask_at_once_one_gets_it(self, candidate: Candidates) -> None:
        """Also on a free lock, and while others ask who holds it."""
        candidates = [candidate(str(number)) for number in range(8)]

        def ask(number: int) -> bool:
            candidates[number].holder()
            return candidates[number].acquire()

        answers = in_threads(ask, 8)
        assert 1 == answers.count(True)
        holder = candidates[0].holder()
        assert holder is not None
        assert str(answers.index(True)) == holder.identity


@contextmanager
def holding(path: Path, identity: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock."""
    program = (
        "import sys; from pathlib import Path; from adapters.sqlite.leadership import FileLeadership\n"
        "lock = FileLeadership(Path(sys.argv[1]), sys.argv[2]); print(lock.acquire(), flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path), identity]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert "True\n" == process.stdout.readline()
            yield process
        finally:
            process.kill()


class TestFileLeadership(LeadershipContract):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "state" / "scheduler.lock"

    @pytest.fixture
    def candidate(self, path: Path) -> Iterator[Candidates]:
        with ExitStack() as stack:

            def made(identity: str) -> FileLeadership:
                one = FileLeadership(path, identity)
                stack.callback(one.release)
                return one

            yield made

    def test_a_killed_holder_leaves_it_free(self, candidate: Candidates, path: Path) -> None:
        """No time-out stands between a crash and the next scheduler."""
        mine = candidate("mine")
        with holding(path, "theirs") as process:
            assert not mine.acquire()
            assert Holder("theirs", process.pid) == mine.holder()
            process.kill()
            process.wait()
            assert mine.holder() is None
            assert mine.acquire()
        assert Holder("mine", os.getpid()) == mine.holder()

    def test_a_stopped_holder_keeps_it(self, candidate: Candidates, path: Path) -> None:
        """It may go on at any moment, and would not know that another took over."""
        mine = candidate("mine")
        with holding(path, "theirs") as process:
            process.send_signal(signal.SIGSTOP)
            assert not mine.acquire()
            assert Holder("theirs", process.pid) == mine.holder()
            process.send_signal(signal.SIGCONT)

    def test_a_longer_name_leaves_nothing_behind(self, candidate: Candidates, path: Path) -> None:
        """The file is read by people after the next holder wrote a shorter name over it."""
        with holding(path, "x" * 500) as process:
            process.kill()
            process.wait()
        mine = candidate("mine")
        assert mine.acquire()
        assert Holder("mine", os.getpid()) == mine.holder()

    def test_a_removed_file_is_a_lost_lock(self, candidate: Candidates, path: Path) -> None:
        """Somebody else could hold a new file of that name: the holder must notice at its next round."""
        first, second = candidate("a"), candidate("b")
        first.acquire()
        path.unlink()
        assert second.acquire()
        assert not first.acquire()

    def test_a_child_does_not_inherit_it(self, candidate: Candidates, path: Path) -> None:
        """A program that the scheduler starts must not hold the lock after the scheduler is gone."""
        mine = candidate("mine")
        assert mine.acquire()
        with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
            try:
                mine.release()
                assert candidate("other").acquire()
            finally:
                child.kill()

    def test_a_path_that_is_no_file_is_unavailable(self, tmp_path: Path) -> None:
        """The operator learns what is wrong, and the round ends."""
        with pytest.raises(Unavailable, match="lock file"):
            FileLeadership(tmp_path, "a").acquire()


class LeaseContract(LeadershipContract):
    """Of a Lease, held directly or through a service. Time is the test's own: nothing waits for it to expire."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    def test_a_lease_that_is_not_renewed_is_taken_over(self, candidate: Candidates, clock: ManualClock) -> None:
        """A killed scheduler is replaced, and not before it can know that it is deposed."""
        first, second = candidate("a"), candidate("b")
        assert first.acquire()
        assert not second.acquire()
        clock.advance(DURATION - Span(1))
        assert not second.acquire()
        clock.advance(Span(1))
        assert second.acquire()
        assert not first.acquire()
        assert Holder("b") == first.holder()


class TestLeaseLeadership(LeaseContract):
    @pytest.fixture
    def candidate(self, client: KubeClient, clock: ManualClock) -> Iterator[Candidates]:
        with ExitStack() as stack:

            def made(identity: str) -> LeaseLeadership:
                one = LeaseLeadership(client, identity, elapsed=clock.elapsed)
                stack.callback(one.release)
                return one

            yield made

    def test_a_renewed_lease_is_not_taken_over(self, candidate: Candidates, clock: ManualClock) -> None:
        """Whoever waits begins to count anew whenever the Lease has changed."""
        first, second = candidate("a"), candidate("b")
        assert first.acquire()
        for _ in range(8):
            clock.advance(RETRY + Span(1))
            assert first.acquire()
            assert not second.acquire()

    def test_a_waiter_judges_by_its_own_clock(self, client: KubeClient, clock: ManualClock) -> None:
        """Clocks of machines differ: a time that the holder wrote must not make its Lease look old, or fresh for ever."""
        assert LeaseLeadership(client, "a", elapsed=ManualClock().elapsed).acquire()
        lease = client.coordination.read_namespaced_lease(NAME, client.namespace)
        for year in (2001, 2099):
            waiter = LeaseLeadership(client, "b", elapsed=clock.elapsed)
            lease.spec.renew_time = datetime(year, 1, 1, microsecond=1, tzinfo=UTC)
            lease = client.coordination.replace_namespaced_lease(NAME, client.namespace, lease)
            assert not waiter.acquire()
            clock.advance(DURATION)
        assert waiter.acquire()

    def test_transitions_count_who_held_it(self, candidate: Candidates, client: KubeClient, clock: ManualClock) -> None:
        """As client-go counts: renewing is none, and a Lease made anew begins at 0."""

        def transitions() -> int:
            return int(client.coordination.read_namespaced_lease(NAME, client.namespace).spec.lease_transitions)

        first, second = candidate("a"), candidate("b")
        first.acquire()
        clock.advance(RETRY)
        first.acquire()
        assert 0 == transitions()
        first.release()
        second.acquire()
        assert 1 == transitions()
        client.coordination.delete_namespaced_lease(NAME, client.namespace)
        clock.advance(RETRY)
        assert second.acquire()
        assert 0 == transitions()

    def test_a_deleted_lease_is_one_holders_again(self, candidate: Candidates, client: KubeClient, clock: ManualClock) -> None:
        """Whoever makes it anew holds it; the former holder learns so when it renews."""
        first, second = candidate("a"), candidate("b")
        first.acquire()
        client.coordination.delete_namespaced_lease(NAME, client.namespace)
        assert second.acquire()
        clock.advance(RETRY)
        assert not first.acquire()

    def test_a_holder_gives_up_before_its_lease_expires(self, client: KubeClient, clock: ManualClock, tmp_path: Path) -> None:
        """Who can't renew must stop while nobody else can have begun."""
        settings = Configuration(host=client.api.configuration.host)
        settings.ssl_ca_cert, settings.api_key = client.api.configuration.ssl_ca_cert, dict(client.api.configuration.api_key)
        settings.retries = False
        with closing(KubeClient(client.namespace, ApiClient(settings))) as mine:
            first = LeaseLeadership(mine, "a", elapsed=clock.elapsed)
            assert first.acquire()
            settings.host = f"https://127.0.0.1:{free_port()}"
            clock.advance(RENEW_DEADLINE - Span(1))
            assert first.acquire()
            clock.advance(Span(1))
            assert not first.acquire()
            with pytest.raises(Unavailable):
                first.acquire()


class TestRemoteLeadership(LeaseContract):
    """The same Lease, through a control service."""

    @pytest.fixture
    def candidate(self, client: KubeClient, clock: ManualClock) -> Iterator[Candidates]:
        with ExitStack() as stack:
            url = stack.enter_context(control(client, elapsed=clock.elapsed))
            line = stack.enter_context(closing(Line(url, TOKEN)))

            def made(identity: str) -> RemoteLeadership:
                one = RemoteLeadership(line, identity, elapsed=clock.elapsed)
                stack.callback(one.release)
                return one

            yield made

    def test_it_is_the_lease_of_those_who_need_no_service(self, candidate: Candidates, client: KubeClient, clock: ManualClock) -> None:
        """Of a scheduler here and one there, one schedules."""
        here, there = LeaseLeadership(client, "here", elapsed=clock.elapsed), candidate("there")
        assert here.acquire()
        assert not there.acquire()
        here.release()
        assert there.acquire()
        assert not here.acquire()
        assert Holder("there") == here.holder()

    def test_a_holder_gives_up_before_its_lease_expires(self, client: KubeClient, clock: ManualClock) -> None:
        """Who gets no answer any more must stop while nobody else can have begun."""
        with ExitStack() as service:
            line = Line(service.enter_context(control(client, elapsed=clock.elapsed)), TOKEN)
            first = RemoteLeadership(line, "a", elapsed=clock.elapsed)
            assert first.acquire()
            service.close()
            clock.advance(RENEW_DEADLINE - Span(1))
            assert first.acquire()
            clock.advance(Span(1))
            assert not first.acquire()
            with pytest.raises(Unavailable):
                first.acquire()
            line.close()

    def test_a_restarted_service_forgets_nobody(self, client: KubeClient, clock: ManualClock) -> None:
        """Who holds it is in the Lease, not in the service."""
        for _ in range(2):
            with control(client, elapsed=clock.elapsed) as url, closing(Line(url, TOKEN)) as line:
                assert RemoteLeadership(line, "a", elapsed=clock.elapsed).acquire()
                assert not RemoteLeadership(line, "b", elapsed=clock.elapsed).acquire()
            clock.advance(RETRY)
