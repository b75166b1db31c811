"""What every store of the scheduler's epoch keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from adapters.k8s.client import KubeClient
from adapters.k8s.epochs import KubeEpochs
from adapters.remote.stores import RemoteEpochs
from adapters.sqlite.epochs import SqliteEpochs
from adapters.sqlite.schema import open_gridweave
from ports.errors import Conflict, Invalid
from ports.leadership import Epochs
from tests.contract import races
from tests.contract.races import in_processes, in_threads
from tests.kube.control import line_to
from tests.memory.epochs import MemoryEpochs


class EpochsContract:
    """Give a fixture `epochs`: an empty store."""

    def test_the_first_epoch_is_above_zero(self, epochs: Epochs) -> None:
        """0 stands for "never": an agent that was never commanded has it too."""
        assert 0 == epochs.read()
        epochs.raise_to(1, 0)
        assert 1 == epochs.read()

    def test_an_epoch_may_leap(self, epochs: Epochs) -> None:
        """After a lost database it must get above what the agents have seen."""
        epochs.raise_to(40, 0)
        epochs.raise_to(41, 40)
        assert 41 == epochs.read()

    def test_whoever_read_an_old_epoch_gets_a_conflict(self, epochs: Epochs) -> None:
        """Two that take over at once never share a term."""
        epochs.raise_to(5, 0)
        for seen in (0, 4, 6):
            with pytest.raises(Conflict):
                epochs.raise_to(9, seen)
        assert 5 == epochs.read()

    @pytest.mark.parametrize("epoch", [5, 4, 0, -1])
    def test_an_epoch_only_grows(self, epochs: Epochs, epoch: int) -> None:
        """An agent would refuse every command of a term that is not newer."""
        epochs.raise_to(5, 0)
        with pytest.raises(Invalid, match="only grows"):
            epochs.raise_to(epoch, 5)
        assert 5 == epochs.read()

    def test_of_threads_that_raise_it_one_wins(self, epochs: Epochs) -> None:
        """Each term has one scheduler."""
        answers = in_threads(lambda number: races.raise_epoch(epochs, str(number + 1)), 8)
        assert answers.index("won") + 1 == epochs.read()
        assert 7 == answers.count("lost")


class SharedEpochsContract:
    """For stores that processes share. Give also a fixture `address`, which `tests.contract.races` can open."""

    def test_of_processes_that_raise_it_one_wins(self, epochs: Epochs, address: str) -> None:
        """Schedulers are processes."""
        answers = in_processes("raise_epoch", address, ["1", "2", "3"])
        assert answers.index("won") + 1 == epochs.read()
        assert 2 == answers.count("lost")


class TestMemoryEpochs(EpochsContract):
    @pytest.fixture
    def epochs(self) -> MemoryEpochs:
        return MemoryEpochs()


class TestSqliteEpochs(EpochsContract, SharedEpochsContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path}"

    @pytest.fixture
    def epochs(self, tmp_path: Path) -> Iterator[SqliteEpochs]:
        with closing(open_gridweave(tmp_path)) as database:
            yield SqliteEpochs(database)


class TestKubeEpochs(EpochsContract, SharedEpochsContract):
    @pytest.fixture
    def address(self, admin: Path, namespace: str) -> str:
        return f"kube:{namespace}:{admin}"

    @pytest.fixture
    def epochs(self, client: KubeClient) -> KubeEpochs:
        return KubeEpochs(client)


class TestRemoteEpochs(EpochsContract):
    """Through the control service, with Kubernetes behind it."""

    @pytest.fixture
    def epochs(self, client: KubeClient) -> Iterator[RemoteEpochs]:
        with line_to(client) as line:
            yield RemoteEpochs(line)
