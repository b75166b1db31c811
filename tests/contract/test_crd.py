"""The controller library, whatever is behind it: Kubernetes, the control service, or memory."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from adapters.k8s import crd as direct
from adapters.k8s.client import KubeClient
from adapters.remote import crd as proxied
from ports.endpoints import HEALTHY, EndpointPhase
from ports.errors import AlreadyExists, IllegalTransition, Invalid, NotFound, Refused
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Mib, Rate, Span
from ports.workloads import (
    CHARGED,
    FUNDED,
    HOLD_VOIDED,
    LOW_BALANCE,
    RESULT_STORED,
    BlobRef,
    ConditionStatus,
    Exit,
    ExitKind,
    Phase,
    Result,
    RunState,
    Slot,
)
from tests import mock_crd
from tests.kube.control import TOKEN, control

FUNCTION = BlobRef("a" * 64, 10)
PLACEMENT = (Slot("n1", 0, Mib(4096)), Slot("n1", 1, Mib(4096)))
PRICE = Price(3, (PriceLine("org", Rate(8_000_000)),))
MODULES = (direct, proxied, mock_crd)


def functions(module: ModuleType) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__}


def test_every_transport_has_the_same_functions() -> None:
    """A gateway is moved behind the control service, and a user's test to the mock, by another import and nothing else."""
    signatures = [{name: inspect.signature(each) for name, each in functions(module).items()} for module in MODULES]
    assert [signatures[0]] * 2 == signatures[1:]
    assert {"create_job", "set_job_completed", "create_endpoint", "set_endpoint_health"} <= signatures[0].keys()
    assert {True} == {inspect.isfunction(each) for module in MODULES for each in functions(module).values()}


def test_the_library_has_a_name_of_its_own() -> None:
    """Those who know it by that name find it."""
    from gridweave_controller import crd

    assert direct is crd


class CrdContract:
    """Give a fixture `crd`: the library, with nothing stored."""

    # ------------------------------------------------------------ jobs

    def test_a_created_job_waits_for_its_funding(self, crd: Any) -> None:
        """Nothing runs before it is known that it can be paid."""
        made = crd.create_job("job-1", "ada", FUNCTION, vram="8GB", gpus=2, labels={"team": "red"}, max_runtime=Span(5000))
        assert (Phase.PENDING, ConditionStatus.UNKNOWN) == (made.status.phase, made.status.condition(FUNDED).status)
        assert ("ada", FUNCTION, Mib(8192), 2, {"team": "red"}, Span(5000)) == (
            made.spec.user,
            made.spec.function,
            made.spec.ask.mib,
            made.spec.ask.gpus,
            made.spec.labels,
            made.spec.max_runtime,
        )
        assert made == crd.get_job("job-1")
        with pytest.raises(AlreadyExists):
            crd.create_job("job-1", "bob", FUNCTION)

    def test_what_is_not_there_is_said_so(self, crd: Any) -> None:
        """A setter of nothing must not look like success."""
        assert crd.get_job("nothing") is None
        crd.delete_job("nothing")
        with pytest.raises(NotFound):
            crd.set_job_running("nothing")

    def test_a_job_goes_through_its_life(self, crd: Any) -> None:
        """Each setter moves the phase and writes what belongs to it."""
        crd.create_job("job-1", "ada", FUNCTION)
        crd.set_job_funded("job-1")
        allocated = crd.set_job_allocated("job-1", PLACEMENT, epoch=7, price=PRICE)
        assert (Phase.ALLOCATED, 1, PLACEMENT, 7, PRICE) == (
            allocated.status.phase,
            allocated.status.attempt,
            allocated.status.run.placement,
            allocated.status.run.epoch,
            allocated.status.run.price,
        )
        running = crd.set_job_running("job-1")
        assert (Phase.RUNNING, RunState.RUNNING) == (running.status.phase, running.status.run.state)
        ended = crd.set_job_ended("job-1", Exit(ExitKind.RETURNED), wall_seconds=12.3456)
        assert (Phase.CLOSING, Phase.COMPLETED, Span(12_346)) == (ended.status.phase, ended.status.outcome, ended.status.run.ran)
        result = Result("jobs/job-1/1/result", 5, "f" * 64)
        crd.set_job_result_stored("job-1", result)
        crd.set_job_charged("job-1", Credits(27_434))
        crd.set_job_billed("job-1")
        done = crd.set_job_completed("job-1")
        assert (Phase.COMPLETED, result, Credits(27_434)) == (done.status.phase, done.status.result, done.status.charged)
        assert [True] * 4 == [done.status.holds(kind) for kind in (FUNDED, RESULT_STORED, CHARGED, HOLD_VOIDED)]
        assert done == crd.get_job("job-1")

    def test_a_setter_may_be_called_twice(self, crd: Any) -> None:
        """Whoever got no answer asks again; the second time changes nothing, not even a time."""
        crd.create_job("job-1", "ada", FUNCTION)
        calls: list[Callable[[], Any]] = [
            lambda: crd.set_job_funded("job-1"),
            lambda: crd.set_job_low_balance("job-1", low=False),
            lambda: crd.set_job_allocated("job-1", PLACEMENT, epoch=7),
            lambda: crd.set_job_running("job-1"),
            lambda: crd.set_job_cancel_requested("job-1"),
            lambda: crd.set_job_charged("job-1", Credits(1)),
            lambda: crd.set_job_completed("job-1", wall_seconds=1.5),
        ]
        for call in calls:
            assert call() == call()

    def test_completed_takes_the_whole_way(self, crd: Any) -> None:
        """For those who only want to say that it is done, and how long it took."""
        crd.create_job("job-1", "ada", FUNCTION)
        crd.set_job_allocated("job-1", PLACEMENT, epoch=1)
        crd.set_job_running("job-1")
        done = crd.set_job_completed("job-1", wall_seconds=2)
        assert (Phase.COMPLETED, Span(2000), RunState.ENDED) == (done.status.phase, done.status.run.ran, done.status.run.state)

    @pytest.mark.parametrize("way", ["set_job_failed", "set_job_cancelled"])
    def test_a_job_may_fail_or_be_cancelled_from_anywhere(self, crd: Any, way: str) -> None:
        """And what it ran is kept, to be charged."""
        outcome = {"set_job_failed": Phase.FAILED, "set_job_cancelled": Phase.CANCELLED}[way]
        crd.create_job("waits", "ada", FUNCTION)
        assert outcome is getattr(crd, way)("waits", message="so it is").status.phase
        crd.create_job("runs", "ada", FUNCTION)
        crd.set_job_allocated("runs", PLACEMENT, epoch=1)
        crd.set_job_running("runs")
        ended = getattr(crd, way)("runs", message="so it is", wall_seconds=3)
        assert (outcome, "so it is", Span(3000)) == (ended.status.phase, ended.status.message, ended.status.run.ran)

    def test_what_the_table_does_not_have_is_refused(self, crd: Any) -> None:
        """A bug in a caller must not corrupt a job."""
        crd.create_job("job-1", "ada", FUNCTION)
        too_early: list[Callable[[], Any]] = [
            lambda: crd.set_job_running("job-1"),
            lambda: crd.set_job_completed("job-1"),
            lambda: crd.set_job_ended("job-1", Exit(ExitKind.RETURNED)),
        ]
        for call in too_early:
            with pytest.raises(IllegalTransition):
                call()
        crd.set_job_cancelled("job-1")
        too_late: list[Callable[[], Any]] = [
            lambda: crd.set_job_failed("job-1"),
            lambda: crd.set_job_allocated("job-1", PLACEMENT, epoch=1),
        ]
        for call in too_late:
            with pytest.raises(IllegalTransition):
                call()
        assert Phase.CANCELLED is crd.get_job("job-1").status.phase

    def test_a_condition_keeps_its_time_while_its_status_stays(self, crd: Any) -> None:
        """lastTransitionTime says since when it is so."""
        crd.create_job("job-1", "ada", FUNCTION)
        first = crd.set_job_low_balance("job-1").status.condition(LOW_BALANCE)
        crd.set_job_funded("job-1", reason="Held")
        again = crd.set_job_funded("job-1", reason="StillHeld").status.condition(FUNDED)
        assert "StillHeld" == again.reason
        assert first == crd.get_job("job-1").status.condition(LOW_BALANCE)

    @pytest.mark.parametrize("user", ["ada", "Ada Lovelace, Countess", "x=y,z!", "a" * 300, "🦉/../", "in (a,b)"])
    def test_a_user_may_be_called_anything(self, crd: Any, user: str) -> None:
        """Ids come from the platform's own directory, whatever that is."""
        crd.create_job("job-1", user, FUNCTION, name=user, labels={user: user})
        assert (user, user, {user: user}) == ((spec := crd.get_job("job-1").spec).user, spec.name, spec.labels)

    def test_a_selector_selects_what_it_says(self, crd: Any) -> None:
        """By equalities alone: what a user typed as a value can't widen it."""
        crd.create_job("a", "ada", FUNCTION, labels={"team": "red", "tier": "1"})
        crd.create_job("b", "ada", FUNCTION, labels={"team": "red"})
        crd.create_job("c", "ada", FUNCTION, labels={"team": "blue"})
        found = {selector: "".join(job.id for job in crd.list_jobs(selector)) for selector in ("", "team=red", "team=red, tier=1", "team=")}
        assert {"": "abc", "team=red": "ab", "team=red, tier=1": "a", "team=": ""} == found
        assert ["a"] == [job.id for job in crd.list_jobs(label_selector="tier=1")]
        for wrong in ("team", "team in (red,blue)", "team!=red", "!team", "team==red", "=red"):
            with pytest.raises(Invalid, match="label"):
                crd.list_jobs(wrong)

    def test_deleting_an_ended_job_removes_it(self, crd: Any) -> None:
        """Nothing is left to settle."""
        crd.create_job("job-1", "ada", FUNCTION)
        crd.set_job_cancelled("job-1")
        crd.delete_job("job-1")
        assert crd.get_job("job-1") is None

    def test_deleting_a_running_job_cancels_it_first(self, crd: Any) -> None:
        """Its VRAM must be freed and its time be charged before the record of both goes."""
        crd.create_job("job-1", "ada", FUNCTION)
        crd.set_job_allocated("job-1", PLACEMENT, epoch=1)
        crd.set_job_running("job-1")
        crd.delete_job("job-1")
        kept = crd.get_job("job-1")
        assert kept.status.cancel is not None
        assert Phase.RUNNING is kept.status.phase
        assert Phase.CANCELLED is crd.set_job_cancelled("job-1", wall_seconds=1).status.phase
        assert crd.get_job("job-1") is None
        assert crd.create_job("job-1", "ada", FUNCTION).uid != kept.uid

    # ------------------------------------------------------------ endpoints

    def test_an_endpoint_goes_through_its_life(self, crd: Any) -> None:
        """Deployed, served, looked after, stopped, and started again."""
        made = crd.create_endpoint("chat", "ada", model="llama", mode="paid", per_call=Credits(5), replicas=2, vram="24GB")
        assert (EndpointPhase.PENDING, 2, Credits(5)) == (made.status.phase, made.spec.replicas, made.spec.per_call)
        assert made == crd.get_endpoint("chat")
        assert (EndpointPhase.DEPLOYING, 1) == ((first := crd.set_endpoint_deploying("chat").status).phase, first.attempt)
        served = crd.set_endpoint_running("chat", url="http://chat", per_call=Credits(7)).status
        assert (EndpointPhase.RUNNING, "http://chat", Credits(7)) == (served.phase, served.url, served.per_call)
        sick = crd.set_endpoint_health("chat", healthy=1, message="replica 2 is silent").status
        assert (1, ConditionStatus.FALSE) == (sick.healthy, sick.condition(HEALTHY).status)
        assert ConditionStatus.TRUE is crd.set_endpoint_health("chat", healthy=2).status.condition(HEALTHY).status
        assert EndpointPhase.STOPPED is crd.set_endpoint_stopped("chat").status.phase
        again = crd.set_endpoint_deploying("chat").status
        assert (EndpointPhase.DEPLOYING, 2) == (again.phase, again.attempt)
        failed = crd.set_endpoint_failed("chat", reason="NoRoom", message="no GPU is large enough").status
        assert (EndpointPhase.FAILED, "NoRoom", "no GPU is large enough") == (failed.phase, failed.reason, failed.message)
        crd.delete_endpoint("chat")
        crd.delete_endpoint("chat")
        assert crd.get_endpoint("chat") is None

    def test_an_endpoint_runs_only_after_it_was_deployed(self, crd: Any) -> None:
        """The health gate is between."""
        crd.create_endpoint("chat", "ada", image="registry/chat:1")
        with pytest.raises(IllegalTransition):
            crd.set_endpoint_running("chat")
        with pytest.raises(NotFound):
            crd.set_endpoint_running("nothing")

    @pytest.mark.parametrize("wrong", [{}, {"model": "a", "image": "b"}, {"model": "a", "mode": "gratis"}, {"model": "a", "replicas": -1}])
    def test_an_endpoint_that_makes_no_sense_is_refused(self, crd: Any, wrong: dict[str, Any]) -> None:
        """With what would be right."""
        with pytest.raises(Invalid):
            crd.create_endpoint("chat", "ada", **wrong)

    def test_an_id_that_reads_as_a_run_is_refused(self, crd: Any) -> None:
        """Its runs could be taken for those of another job or endpoint."""
        with pytest.raises(Invalid, match="reads as a run"):
            crd.create_job("jobs/7", "ann", FUNCTION)
        with pytest.raises(Invalid, match="reads as a run"):
            crd.create_endpoint("ep/1", "ann", model="m")

    def test_endpoints_are_listed_by_label(self, crd: Any) -> None:
        """As jobs are."""
        crd.create_endpoint("a", "ada", model="m", labels={"team": "red"})
        crd.create_endpoint("b", "ada", model="m")
        assert [["a", "b"], ["a"]] == [[each.id for each in crd.list_endpoints(selector)] for selector in ("", "team=red")]


class TestDirectCrd(CrdContract):
    @pytest.fixture
    def crd(self, client: KubeClient) -> Iterator[ModuleType]:
        direct.use(client)
        yield direct
        direct.close()


class TestProxiedCrd(CrdContract):
    @pytest.fixture
    def crd(self, client: KubeClient) -> Iterator[ModuleType]:
        with control(client) as url:
            proxied.use(url, TOKEN)
            yield proxied
            proxied.close()

    def test_another_token_is_refused(self, client: KubeClient) -> None:
        """Whoever may call it may do everything."""
        with control(client) as url:
            proxied.use(url, "another token")
            with pytest.raises(Refused, match="token"):
                proxied.get_job("job-1")
            proxied.close()

    def test_another_namespace_is_refused(self, client: KubeClient, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its objects are not those that the caller believes to see."""
        with control(client) as url:
            monkeypatch.setenv("KUBERAY_SERVICE_URL", url)
            monkeypatch.setenv("ADMIN_TOKEN", TOKEN)
            proxied.init_k8s_client(namespace=client.namespace)
            with pytest.raises(Refused, match="namespace"):
                proxied.init_k8s_client(namespace="another")
            proxied.close()


class TestMockCrd(CrdContract):
    @pytest.fixture
    def crd(self) -> ModuleType:
        mock_crd.init_k8s_client()
        return mock_crd
