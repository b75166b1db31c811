"""What every store of tariffs keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.tariffs import KubeTariffs
from adapters.remote.stores import RemoteTariffs
from adapters.sqlite.schema import open_gridweave
from adapters.sqlite.tariffs import SqliteTariffs
from ports.errors import Conflict, NotFound
from ports.tariffs import Splits, Tariff, Tariffs
from ports.units import Instant
from tests.contract.races import in_threads
from tests.kube.control import line_to
from tests.memory.tariffs import MemoryTariffs

FIRST = Tariff(1, Instant(100), 0, 1_000_000, {"A100-80GB": 0}, {"acme": {"L4-24GB": 500_000}}, Splits(200_000, 0))


class TariffsContract:
    """Give a fixture `tariffs`: an empty store."""

    def test_a_published_tariff_is_read_back_with_every_field(self, tariffs: Tariffs) -> None:
        """A zero that was given is a zero, for ever."""
        assert FIRST == tariffs.publish(FIRST)
        assert (FIRST,) == tariffs.history()
        assert FIRST == tariffs.in_force(Instant(100))

    def test_before_the_first_there_is_none(self, tariffs: Tariffs) -> None:
        """Nothing is priced by a list that did not hold."""
        assert () == tariffs.history()
        with pytest.raises(NotFound):
            tariffs.in_force(Instant(100))
        tariffs.publish(FIRST)
        with pytest.raises(NotFound):
            tariffs.in_force(Instant(99))

    def test_the_list_that_began_last_holds_and_of_those_that_began_together_the_newest(self, tariffs: Tariffs) -> None:
        """What is announced stays announced, a change may begin before its day, and it may be corrected for its very day."""
        second, third = evolve(FIRST, version=2, effective=Instant(300)), evolve(FIRST, version=3, effective=Instant(200))
        fourth, fifth = evolve(FIRST, version=4, effective=Instant(300)), evolve(FIRST, version=5, effective=Instant(100))
        for tariff in (FIRST, second, third):
            tariffs.publish(tariff)
        assert [1, 3, 3, 2, 2] == [tariffs.in_force(Instant(at)).version for at in (199, 200, 299, 300, 10_000)]
        tariffs.publish(fourth)
        tariffs.publish(fifth)
        assert [5, 5, 3, 4] == [tariffs.in_force(Instant(at)).version for at in (100, 199, 299, 300)]
        assert (FIRST, second, third, fourth, fifth) == tariffs.history()

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_only_the_next_version_is_taken(self, tariffs: Tariffs, version: int) -> None:
        """Two admins who decided on the same list: the later one must look again. None is ever changed."""
        tariffs.publish(FIRST)
        with pytest.raises(Conflict):
            tariffs.publish(evolve(FIRST, version=version, base_rate=5))
        assert (FIRST,) == tariffs.history()

    def test_of_threads_that_publish_one_version_one_wins(self, tariffs: Tariffs) -> None:
        """The same, at the same moment."""

        def publish(number: int) -> str:
            try:
                tariffs.publish(evolve(FIRST, base_rate=number))
            except Conflict:
                return "lost"
            return "won"

        answers = in_threads(publish, 6)
        assert [answers.index("won")] == [tariff.base_rate for tariff in tariffs.history()]
        assert 5 == answers.count("lost")


class TestMemoryTariffs(TariffsContract):
    @pytest.fixture
    def tariffs(self) -> MemoryTariffs:
        return MemoryTariffs()


class TestSqliteTariffs(TariffsContract):
    @pytest.fixture
    def tariffs(self, tmp_path: Path) -> Iterator[SqliteTariffs]:
        with closing(open_gridweave(tmp_path)) as database:
            yield SqliteTariffs(database)


class TestKubeTariffs(TariffsContract):
    @pytest.fixture
    def tariffs(self, client: KubeClient) -> KubeTariffs:
        return KubeTariffs(client)

    def test_what_another_process_publishes_holds_at_once(self, client: KubeClient) -> None:
        """What is remembered of the list must not hide its next version."""
        mine, theirs = KubeTariffs(client), KubeTariffs(client)
        theirs.publish(FIRST)
        assert 1 == mine.in_force(Instant(500)).version
        for version in (2, 3):
            theirs.publish(evolve(FIRST, version=version, effective=Instant(300)))
        assert [1, 3] == [mine.in_force(Instant(at)).version for at in (299, 300)]


class TestRemoteTariffs(TariffsContract):
    """Through the control service, with Kubernetes behind it."""

    @pytest.fixture
    def tariffs(self, client: KubeClient) -> Iterator[RemoteTariffs]:
        with line_to(client) as line:
            yield RemoteTariffs(line)
