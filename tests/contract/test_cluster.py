"""The contract of ports.cluster: every cluster passes it, the one in memory and a real Ray of three raylets."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from adapters.ray.package import AgentPackage, agent_package, zipped
from ports.cluster import Agent, ClusterNode, Forget, Go, Kill, Renew, ReportState, RunReport
from ports.errors import StaleEpoch, Unavailable
from ports.units import Mib, Span
from ports.workloads import ExitKind, RunId
from tests.contract.cluster_rigs import ACME, FLEET, ORG_A, ORG_B, MemoryRig, RayRig, Rig

ROUNDS = 60  # looks at most, each of which waits a while for news
WAIT = Span(1000)


def watch(agent: Agent, run: RunId, state: ReportState) -> RunReport:
    """Follow reports until the run is in that state."""
    cursor, seen = "", None
    for _ in range(ROUNDS):
        reports = agent.reports(cursor, WAIT)
        cursor = reports.cursor
        seen = next((each for each in reports.reports if each.run == run), seen)
        if seen is not None and seen.state is state:
            return seen
    pytest.fail(f"{run} never was {state}: {seen}")


def stored(agent: Agent, run: RunId) -> RunReport:
    """Follow reports until all of the run's output is stored."""
    for _ in range(ROUNDS):
        report = next(each for each in agent.reports("", Span(0)).reports if each.run == run)
        if report.stored:
            return report
        agent.reports("0:0", WAIT)
    pytest.fail(f"{run} was never stored: {report}")


def answering(rig: Rig, name: str) -> Agent:
    """That node's agent, as soon as the cluster can give it."""
    for _ in range(ROUNDS):
        try:
            agent = rig.cluster.agent(node_of(rig, name))
            agent.hello(rig.epoch)
        except Unavailable:
            rig.pause()
        else:
            return agent
    pytest.fail(f"the agent of {name} never answered")


def nodes_of(rig: Rig) -> dict[str, ClusterNode]:
    """By name, as soon as the cluster answers: it may have lost its own connection with a node that died."""
    for _ in range(ROUNDS):
        try:
            return {node.name: node for node in rig.cluster.nodes()}
        except Unavailable:
            rig.pause()
    pytest.fail("the cluster never answered")


def node_of(rig: Rig, name: str) -> ClusterNode:
    return nodes_of(rig)[name]


class ClusterContract:
    def test_nodes_are_what_their_labels_say(self, rig: Rig) -> None:
        """A placement on hardware that is not what it is said to be would be billed wrong and would not run."""
        found = {node.name: (node.alive, node.owner, node.gpus, node.problem) for node in nodes_of(rig).values()}
        assert {name: (True, node.owner, node.gpus, "") for name, node in FLEET.items()} == found

    def test_an_agent_introduces_its_node_and_gpus(self, rig: Rig) -> None:
        """The ledger is filled with what agents say, not with what was once configured."""
        hello = answering(rig, ACME).hello(rig.epoch)
        assert (ACME, FLEET[ACME].gpus) == (hello.node, hello.gpus)
        assert "" != rig.cluster.address(ACME)
        assert "" == rig.cluster.address("no-such-node")

    def test_an_older_epoch_is_refused_by_the_newest_seen(self, rig: Rig) -> None:
        """A scheduler that was paused and wakes up must start nothing."""
        agent = answering(rig, ORG_A)
        newest = rig.next_epoch()
        assert newest == agent.hello(newest).epoch
        for ask in (lambda: agent.hello(newest - 1), lambda: agent.command(newest - 1, [Kill(RunId("job-old", 1))])):
            with pytest.raises(StaleEpoch) as refused:
                ask()
            assert newest == refused.value.newest

    def test_a_run_goes_from_prepare_to_forget_and_each_command_counts_once(self, rig: Rig) -> None:
        """Commands are repeated whenever an answer was lost; the user's code must run once all the same."""
        agent, run = answering(rig, ORG_A), rig.new_run()
        prepare = rig.prepare(run, ORG_A)
        assert [True, True] == [each.ok for each in agent.command(rig.epoch, [prepare, prepare])]
        assert watch(agent, run, ReportState.READY).slots == prepare.slots
        assert [True, True] == [each.ok for each in agent.command(rig.epoch, [Go(run), Go(run)])]
        gone = watch(agent, run, ReportState.GONE)
        assert gone.exit is not None
        assert (ExitKind.RETURNED, True) == (gone.exit.kind, gone.started)
        kept = stored(agent, run)
        assert kept.result is not None
        assert (f"jobs/{run.workload}/{run.attempt}/result", False) == (kept.result.key, kept.result.raised)
        assert 1 == rig.times_run(run)
        assert all(each.ok for each in agent.command(rig.epoch, [Kill(run), Renew(run, prepare.output), prepare, Forget(run)]))
        assert run not in {each.run for each in agent.hello(rig.epoch).runs}
        assert agent.command(rig.epoch, [Forget(run)])[0].ok

    def test_go_for_a_run_that_is_not_known_says_so(self, rig: Rig) -> None:
        """The scheduler tells a lost run from one that is merely not ready yet by this answer."""
        answer = answering(rig, ORG_A).command(rig.epoch, [Go(RunId("job-nowhere", 1))])[0]
        assert (False, False) == (answer.ok, answer.known)

    def test_a_run_is_killed_whole_and_keeps_its_time(self, rig: Rig) -> None:
        """A cancelled job is billed until its processes are gone, and no longer."""
        agent, run = answering(rig, ORG_B), rig.new_run()
        agent.command(rig.epoch, [rig.prepare(run, ORG_B, sleeps=True)])
        watch(agent, run, ReportState.READY)
        agent.command(rig.epoch, [Go(run)])
        watch(agent, run, ReportState.RUNNING)
        assert run in agent.reports("", Span(0)).ran
        assert [True, True] == [each.ok for each in agent.command(rig.epoch, [Kill(run, Span(500)), Kill(run, Span(500))])]
        gone = watch(agent, run, ReportState.GONE)
        assert gone.exit is not None
        assert (ExitKind.KILLED, True) == (gone.exit.kind, gone.started)
        agent.command(rig.epoch, [Forget(run)])

    def test_a_run_killed_before_go_never_ran(self, rig: Rig) -> None:
        """What never ran costs nothing, and may be placed again."""
        agent, run = answering(rig, ORG_B), rig.new_run()
        agent.command(rig.epoch, [rig.prepare(run, ORG_B)])
        watch(agent, run, ReportState.READY)
        agent.command(rig.epoch, [Kill(run)])
        gone = watch(agent, run, ReportState.GONE)
        assert gone.exit is not None
        assert (ExitKind.NEVER_RAN, False, Span(0)) == (gone.exit.kind, gone.started, gone.ran)
        agent.command(rig.epoch, [Forget(run)])

    def test_an_agent_refuses_more_vram_than_its_gpu_has(self, rig: Rig) -> None:
        """Two schedulers that believe in different ledgers must not both be obeyed."""
        agent, first, second = answering(rig, ACME), rig.new_run(), rig.new_run()
        gpus = FLEET[ACME].gpus
        assert gpus is not None
        whole = gpus[0].total
        answers = agent.command(rig.epoch, [rig.prepare(first, ACME, mib=whole), rig.prepare(second, ACME, mib=Mib(1))])
        assert [True, False] == [each.ok for each in answers]
        assert "" != answers[1].error
        agent.command(rig.epoch, [Kill(first)])
        watch(agent, first, ReportState.GONE)
        assert agent.command(rig.epoch, [rig.prepare(second, ACME, mib=whole)])[0].ok
        agent.command(rig.epoch, [Kill(second)])
        watch(agent, second, ReportState.GONE)
        agent.command(rig.epoch, [Forget(first), Forget(second)])

    def test_a_killed_agent_comes_back_and_knows_its_runs(self, rig: Rig) -> None:
        """An agent may crash; a training run of three days may not."""
        agent, run = answering(rig, ORG_B), rig.new_run()
        before = agent.hello(rig.epoch)
        agent.command(rig.epoch, [rig.prepare(run, ORG_B, sleeps=True)])
        watch(agent, run, ReportState.READY)
        agent.command(rig.epoch, [Go(run)])
        watch(agent, run, ReportState.RUNNING)
        cursor = agent.reports("", Span(0)).cursor
        rig.kill_agent(ORG_B)
        found = answering(rig, ORG_B)
        after = found.hello(rig.epoch)
        assert (before.node, before.epoch) == (after.node, after.epoch)
        assert before.incarnation != after.incarnation
        assert {run: ReportState.RUNNING} == {each.run: each.state for each in after.runs if each.run == run}
        assert run in {each.run for each in found.reports(cursor, WAIT).reports}
        found.command(rig.epoch, [Kill(run, Span(500))])
        watch(found, run, ReportState.GONE)
        found.command(rig.epoch, [Forget(run)])

    def test_a_dead_node_is_told_and_comes_back_with_its_runs(self, rig: Rig) -> None:
        """VRAM of a node that can't be asked is not free: what ran there may still run."""
        agent, run = answering(rig, ACME), rig.new_run()
        agent.command(rig.epoch, [rig.prepare(run, ACME, sleeps=True)])
        watch(agent, run, ReportState.READY)
        agent.command(rig.epoch, [Go(run)])
        watch(agent, run, ReportState.RUNNING)
        rig.kill_node(ACME)
        for _ in range(ROUNDS):
            if not node_of(rig, ACME).alive:
                break
            rig.pause()
        dead = node_of(rig, ACME)
        assert not dead.alive
        with pytest.raises(Unavailable):
            rig.cluster.agent(dead)
        with pytest.raises(Unavailable):
            agent.hello(rig.epoch)
        rig.start_node(ACME)
        found = answering(rig, ACME)
        assert ReportState.RUNNING in {each.state for each in found.hello(rig.epoch).runs if each.run == run}
        found.command(rig.epoch, [Kill(run, Span(500))])
        watch(found, run, ReportState.GONE)
        found.command(rig.epoch, [Forget(run)])

    def test_a_head_that_hangs_is_unavailable_and_agents_go_on(self, rig: Rig) -> None:
        """Ray may hang for minutes; runs, reports and the rest of the house must not hang with it."""
        agent = answering(rig, ORG_B)
        rig.hang_head()
        try:
            for _ in range(2):  # an answer that was under way when it was stopped may still come
                with suppress(Unavailable):
                    rig.cluster.nodes()
            for _ in range(2):
                with pytest.raises(Unavailable):
                    rig.cluster.nodes()
            assert ORG_B == agent.hello(rig.epoch).node
        finally:
            rig.resume_head()
        assert set(FLEET) == set(nodes_of(rig))


class TestMemoryCluster(ClusterContract):
    @pytest.fixture
    def rig(self) -> Rig:
        return MemoryRig()


@pytest.fixture(scope="module")
def three_raylets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayRig]:
    rig = RayRig(tmp_path_factory.mktemp("ray"))
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


@pytest.mark.xdist_group("ray")
class TestRayCluster(ClusterContract):
    @pytest.fixture
    def rig(self, three_raylets: RayRig) -> Rig:
        return three_raylets

    def test_an_agent_of_another_version_is_replaced_and_its_runs_go_on(self, three_raylets: RayRig, tmp_path: Path) -> None:
        """An upgrade of the gateway must reach the nodes and end nobody's work."""
        rig = three_raylets
        agent, run = answering(rig, ORG_A), rig.new_run()
        agent.command(rig.epoch, [rig.prepare(run, ORG_A, sleeps=True)])
        watch(agent, run, ReportState.READY)
        agent.command(rig.epoch, [Go(run)])
        watch(agent, run, ReportState.RUNNING)
        before = agent.hello(rig.epoch).incarnation
        newer = rig.cluster_of(another_version(tmp_path))
        try:
            hello = newer.agent(node_of(rig, ORG_A)).hello(rig.epoch)
        finally:
            newer.close()
        assert before != hello.incarnation
        assert {run: ReportState.RUNNING} == {each.run: each.state for each in hello.runs if each.run == run}
        back = answering(rig, ORG_A)
        back.command(rig.epoch, [Kill(run, Span(500))])
        watch(back, run, ReportState.GONE)
        back.command(rig.epoch, [Forget(run)])


def another_version(folder: Path) -> AgentPackage:
    """Our package with one more file."""
    with zipfile.ZipFile(io.BytesIO(agent_package().data)) as archive:
        archive.extractall(folder)
    (folder / "gridweave_agent" / "newer.py").write_text("")
    return zipped(folder / "gridweave_agent")
