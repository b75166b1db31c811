"""What `kubectl apply -k k8s` gives: the real API server takes all of it, and its rules are those of `ports`."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.endpoints import KubeEndpoints
from adapters.k8s.epochs import KubeEpochs
from adapters.k8s.mapping import job_object, status_form
from adapters.k8s.tariffs import KubeTariffs
from adapters.k8s.workloads import KubeWorkloads
from ports.endpoints import ENDPOINT_TRANSITIONS, Endpoint, EndpointSpec
from ports.tariffs import Tariff
from ports.units import Instant, Mib
from ports.workloads import TRANSITIONS, Ask, ExitKind, Job, Phase, RunId, RunState
from tests.contract.samples import a_full_job, a_job
from tests.kube.plane import MANIFESTS, Plane

KINDS = ("gridweavejobs", "gridweaveendpoints", "gridweavenodes", "gridweavetariffs", "gridweaveepochs")


@pytest.mark.parametrize("how", [["--server-side"], []])
def test_the_kustomization_is_taken_whole(plane: Plane, how: list[str]) -> None:
    """An operator types one command."""
    done = plane.kubectl("apply", *how, "--force-conflicts" if how else "--overwrite", "-k", str(MANIFESTS))
    assert 0 == done.returncode, done.stderr
    found = plane.kubectl("get", "deployments,cronjobs,services,poddisruptionbudgets", "-o", "name", namespace="gridweave").stdout.split()
    expected = {
        *(f"deployment.apps/gridweave-{name}" for name in ("gateway", "scheduler", "control")),
        *(f"cronjob.batch/gridweave-{name}" for name in ("bill", "reconcile", "sweep")),
        *(f"service/gridweave-{name}" for name in ("gateway", "control")),
        *(f"poddisruptionbudget.policy/gridweave-{name}" for name in ("gateway", "scheduler", "control")),
    }
    assert expected == set(found)


def test_the_overlay_of_the_guide_builds(plane: Plane, tmp_path: Path) -> None:
    """What an operator copies from the guide must be right."""
    guide = (MANIFESTS.parent / "docs" / "guides" / "kubernetes.md").read_text()
    overlay = textwrap.dedent(guide.partition("# my-cluster/kustomization.yaml\n")[2].partition("\n\n")[0])
    shutil.copytree(MANIFESTS, tmp_path / "k8s")
    (tmp_path / "my-cluster").mkdir()
    (tmp_path / "my-cluster" / "kustomization.yaml").write_text(overlay)
    done = plane.kubectl("kustomize", str(tmp_path / "my-cluster"))
    assert 0 == done.returncode, done.stderr
    assert "RAY_HEAD_ADDRESS: raycluster-head-svc.ray:6379" in done.stdout
    assert "image: registry.example/gridweave:0.1.0" in done.stdout


def crd(plane: Plane, kind: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(plane.kubectl("get", "crd", f"{kind}.gridweave.io", "-o", "json").stdout)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_good_citizen(plane: Plane, kind: str) -> None:
    """Structural, namespaced, with short names, columns and a version of its form: as users of Kubernetes expect."""
    found = crd(plane, kind)
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
    assert ("True", "True") == (conditions["Established"], conditions["NamesAccepted"])
    assert "NonStructuralSchema" not in conditions
    (version,) = found["spec"]["versions"]
    assert ("Namespaced", "v1") == (found["spec"]["scope"], version["name"])
    assert found["spec"]["names"]["shortNames"]
    assert version["additionalPrinterColumns"]
    assert "schemaVersion" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


@pytest.mark.parametrize(("kind", "table"), [("gridweavejobs", TRANSITIONS), ("gridweaveendpoints", ENDPOINT_TRANSITIONS)])
def test_the_server_has_the_same_table_of_phases(plane: Plane, kind: str, table: dict[Any, frozenset[Any]]) -> None:
    """Two tables that differ would refuse what is right, or take what is wrong."""
    status = crd(plane, kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    (rule,) = (each["rule"] for each in status["x-kubernetes-validations"] if "'Pending':" in each["rule"])
    found = {was: set(re.findall(r"\w+", nexts)) for was, nexts in re.findall(r"'(\w+)': \[([^\]]*)\]", rule)}
    assert {str(was): {str(each) for each in nexts} for was, nexts in table.items()} == found
    assert [str(phase) for phase in table] == status["properties"]["phase"]["enum"]


def test_the_server_knows_every_state_and_exit(plane: Plane) -> None:
    """One that it does not know could never be stored."""
    status = crd(plane, "gridweavejobs")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    run = status["runs"]["items"]["properties"]
    assert [str(each) for each in RunState] == run["state"]["enum"]
    assert [str(each) for each in ExitKind] == run["exit"]["properties"]["kind"]["enum"]


def written(client: KubeClient, plane: Plane, job: Job) -> Any:
    """The status of the stored job replaced by that job's, past our own checks; what kubectl says."""
    name = job_object(job, client.namespace)["metadata"]["name"]
    form = json.loads(plane.kubectl("get", "gwj", name, "-o", "json", namespace=client.namespace).stdout)
    form["status"] = status_form(job, 1)
    return plane.kubectl("replace", "--subresource=status", "-f", "-", namespace=client.namespace, stdin=json.dumps(form))


def test_the_server_refuses_what_no_writer_may_do(client: KubeClient, plane: Plane) -> None:
    """Whoever writes a status by hand, past every rule of ours, meets them there."""
    store = KubeWorkloads(client)
    full = store.create(a_full_job("job-1"))
    run = full.status.runs[0]
    allowed = evolve(full, status=evolve(full.status, phase=Phase.CANCELLED, runs=(evolve(run, ran=run.ran + run.ran),)))
    wrong = {
        "a phase follows another": evolve(full.status, phase=Phase.RUNNING),
        "the attempt only grows": evolve(full.status, attempt=0),
        "a run is never taken away": evolve(full.status, runs=()),
        "state only moves forward": evolve(full.status, runs=(evolve(run, state=RunState.BOOKED),)),
        "placement stays": evolve(full.status, runs=(evolve(run, placement=run.placement[:1]),)),
        "epoch stays": evolve(full.status, runs=(evolve(run, epoch=8),)),
        "price stays": evolve(full.status, runs=(evolve(run, price=evolve(run.price, tariff=4)),)),
        "only grows": evolve(full.status, runs=(evolve(run, ran=run.ran - run.ran),)),
    }
    for message, status in wrong.items():
        answer = written(client, plane, evolve(full, status=status))
        assert 0 != answer.returncode, message
        assert message in answer.stderr
    answer = written(client, plane, allowed)
    assert 0 == answer.returncode, answer.stderr


def test_a_spec_is_immutable(client: KubeClient, plane: Plane) -> None:
    """What was quoted and held is what is run."""
    KubeWorkloads(client).create(a_job("job-1"))
    answer = plane.kubectl("patch", "gwj", "job-1", "--type=merge", "-p", '{"spec":{"vram":1}}', namespace=client.namespace)
    assert 0 != answer.returncode
    assert "immutable" in answer.stderr


def patched(plane: Plane, client: KubeClient, what: str, patch: dict[str, Any], *more: str) -> str:
    """What kubectl says to a merge patch of that object: empty if it was taken."""
    done = plane.kubectl("patch", *what.split("/"), "--type=merge", *more, "-p", json.dumps(patch), namespace=client.namespace)
    return "" if done.returncode == 0 else done.stderr


def test_an_endpoints_spec_is_versioned(client: KubeClient, plane: Plane) -> None:
    """Its owner may ask for more replicas; whose it is stays, and its status goes along the table."""
    KubeEndpoints(client).create(Endpoint("chat", "uid", Instant(1), EndpointSpec("ada", "chat", Ask(Mib(1024)), model="llama")))
    assert "" == patched(plane, client, "gwe/chat", {"spec": {"replicas": 3}})
    found = plane.kubectl("get", "gwe", "chat", "-o", "jsonpath={.metadata.generation}", namespace=client.namespace)
    assert "2" == found.stdout
    status = "--subresource=status"
    assert "stays its user's" in patched(plane, client, "gwe/chat", {"spec": {"user": "eve"}})
    assert "either a model or an image" in patched(plane, client, "gwe/chat", {"spec": {"image": "registry/chat:1"}})
    assert "" == patched(plane, client, "gwe/chat", {"status": {"schemaVersion": 1, "phase": "Deploying", "attempt": 2}}, status)
    assert "" == patched(plane, client, "gwe/chat", {"status": {"phase": "Running"}}, status)
    assert "the attempt only grows" in patched(plane, client, "gwe/chat", {"status": {"attempt": 1}}, status)
    assert "" == patched(plane, client, "gwe/chat", {"status": {"phase": "Stopped"}}, status)
    assert "a phase follows another" in patched(plane, client, "gwe/chat", {"status": {"phase": "Running"}}, status)


def test_an_epoch_only_grows_and_a_price_list_stays(client: KubeClient, plane: Plane) -> None:
    """Whoever writes them by hand can neither wake an old term nor change what was agreed."""
    KubeEpochs(client).raise_to(7, 0)
    KubeTariffs(client).publish(Tariff(1, Instant(0), 0, 1))
    assert "an epoch only grows" in patched(plane, client, "gwepoch/scheduler", {"spec": {"newest": 6}})
    assert "" == patched(plane, client, "gwepoch/scheduler", {"spec": {"newest": 8}})
    assert "never changed" in patched(plane, client, "gwt/v1", {"spec": {"effective": "2030-01-01T00:00:00Z"}})


def test_a_new_attempt_may_wait_again(client: KubeClient, plane: Plane) -> None:
    """A restart re-enters Pending, and its first run stays as it was."""
    job = KubeWorkloads(client).create(a_job("job-1"))
    run = evolve(a_full_job("job-1").status.runs[0], state=RunState.BOOKED, exit=None)
    booked = evolve(job, status=evolve(job.status, phase=Phase.ALLOCATED, attempt=1, runs=(run,)))
    again = evolve(booked, status=evolve(booked.status, phase=Phase.PENDING, runs=(evolve(run, state=RunState.ENDED),)))
    second = evolve(run, id=RunId("job-1", 2), epoch=9)
    placed = evolve(again, status=evolve(again.status, phase=Phase.ALLOCATED, attempt=2, runs=(*again.status.runs, second)))
    for each in (booked, again, placed):
        answer = written(client, plane, each)
        assert 0 == answer.returncode, answer.stderr
