"""What every store of node records keeps to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.nodes import KubeNodes
from adapters.remote.stores import RemoteNodes
from adapters.sqlite.nodes import SqliteNodes
from adapters.sqlite.schema import open_gridweave
from ports.errors import Conflict
from ports.nodes import Gpu, NodeRecord, NodeRecords, NodeSpec, NodeState, NodeStatus, Quarantine
from ports.units import Mib, Span
from tests.contract import races
from tests.contract.races import in_processes, in_threads
from tests.kube.control import line_to
from tests.memory.nodes import MemoryNodes

SPEC = NodeSpec("provider:acme", True, True)
STATUS = NodeStatus(
    NodeState.READY,
    "all is well",
    "provider:acme",
    (Gpu(0, "A100-80GB", "nvidia", Mib(81920), "GPU-1"), Gpu(1, "L4-24GB", "nvidia", Mib(24576))),
    "http://127.0.0.1:1234",
    7,
    "3.11.7",
    "3.1.2",
    (Quarantine("job-1/1", 0, Mib(8192)),),
    {"job-2/1": Span(5), "ep-1/1/0": Span(0)},
)


class NodesContract:
    """Give a fixture `nodes`: an empty store."""

    def test_an_unknown_node_gives_nothing(self, nodes: NodeRecords) -> None:
        """A node that the operator has not heard of yet is no error."""
        assert nodes.get("n1") is None
        assert () == nodes.list()

    def test_both_halves_are_read_back_with_every_field(self, nodes: NodeRecords) -> None:
        """What is lost here is VRAM given out twice, or a provider who is not paid."""
        first = nodes.put_status(NodeRecord("n1", status=STATUS))
        second = nodes.put_spec(evolve(first, spec=SPEC))
        assert NodeRecord("n1", SPEC, STATUS, second.version) == second == nodes.get("n1")

    def test_each_writer_keeps_the_others_half(self, nodes: NodeRecords) -> None:
        """The scheduler writes what it sees and the operator what he wants; neither may undo the other."""
        first = nodes.put_spec(NodeRecord("n1", SPEC, STATUS))
        assert NodeStatus() == first.status
        second = nodes.put_status(NodeRecord("n1", NodeSpec(), STATUS, first.version))
        assert (SPEC, STATUS) == (second.spec, second.status)
        third = nodes.put_spec(NodeRecord("n1", NodeSpec("org"), NodeStatus(), second.version))
        assert (NodeSpec("org"), STATUS) == (third.spec, third.status)
        assert third == nodes.get("n1")

    @pytest.mark.parametrize("half", ["put_spec", "put_status"])
    def test_a_stale_version_is_a_conflict(self, nodes: NodeRecords, half: str) -> None:
        """One version for both halves: who decided on a reading that is old decides anew."""
        put = getattr(nodes, half)
        stored = put(NodeRecord("n1"))
        newer = nodes.put_status(evolve(stored, status=STATUS))
        for version in ("", stored.version, "no version"):
            with pytest.raises(Conflict):
                put(NodeRecord("n1", SPEC, STATUS, version))
        assert newer == nodes.get("n1")

    @pytest.mark.parametrize("half", ["put_spec", "put_status"])
    def test_a_write_to_a_forgotten_node_is_a_conflict(self, nodes: NodeRecords, half: str) -> None:
        """A node that an admin has forgotten must not come back by a late writer."""
        stored = nodes.put_spec(NodeRecord("n1"))
        nodes.delete("n1")
        with pytest.raises(Conflict):
            getattr(nodes, half)(stored)
        assert nodes.get("n1") is None

    def test_a_version_never_comes_back(self, nodes: NodeRecords) -> None:
        """Else a writer of the forgotten record could overwrite the new one of the same name."""
        old = nodes.put_spec(NodeRecord("n1"))
        nodes.delete("n1")
        new = nodes.put_spec(NodeRecord("n1"))
        assert old.version != new.version
        with pytest.raises(Conflict):
            nodes.put_status(evolve(old, status=STATUS))

    def test_forgetting_twice_is_forgetting_once(self, nodes: NodeRecords) -> None:
        """Whoever is not sure that it worked asks again."""
        nodes.put_spec(NodeRecord("n1"))
        nodes.delete("n1")
        nodes.delete("n1")
        assert () == nodes.list()

    def test_a_list_is_by_name(self, nodes: NodeRecords) -> None:
        """People and tests compare two listings."""
        stored = {name: nodes.put_status(NodeRecord(name, status=STATUS)) for name in ("n2", "n10", "a")}
        assert (stored["a"], stored["n10"], stored["n2"]) == nodes.list()

    def test_of_threads_that_write_one_version_one_wins(self, nodes: NodeRecords) -> None:
        """Two schedulers for a moment: only one of them writes."""
        answers = in_threads(lambda number: races.put_status(nodes, f"http://{number}"), 8)
        stored = nodes.get("n1")
        assert stored is not None
        assert f"http://{answers.index('won')}" == stored.status.agent
        assert 7 == answers.count("lost")


class SharedNodesContract:
    """For stores that processes share. Give also a fixture `address`, which `tests.contract.races` can open."""

    def test_of_processes_that_write_one_version_one_wins(self, nodes: NodeRecords, address: str) -> None:
        """A scheduler that was paused and woke up is a process of its own."""
        rivals = ["http://0", "http://1", "http://2"]
        answers = in_processes("put_status", address, rivals)
        stored = nodes.get("n1")
        assert stored is not None
        assert rivals[answers.index("won")] == stored.status.agent
        assert 2 == answers.count("lost")


class TestMemoryNodes(NodesContract):
    @pytest.fixture
    def nodes(self) -> MemoryNodes:
        return MemoryNodes()


class TestSqliteNodes(NodesContract, SharedNodesContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path}"

    @pytest.fixture
    def nodes(self, tmp_path: Path) -> Iterator[SqliteNodes]:
        with closing(open_gridweave(tmp_path)) as database:
            yield SqliteNodes(database)


class TestKubeNodes(NodesContract, SharedNodesContract):
    @pytest.fixture
    def address(self, admin: Path, namespace: str) -> str:
        return f"kube:{namespace}:{admin}"

    @pytest.fixture
    def nodes(self, client: KubeClient) -> KubeNodes:
        return KubeNodes(client)


class TestRemoteNodes(NodesContract):
    """Through the control service, with Kubernetes behind it."""

    @pytest.fixture
    def nodes(self, client: KubeClient) -> Iterator[RemoteNodes]:
        with line_to(client) as line:
            yield RemoteNodes(line)
