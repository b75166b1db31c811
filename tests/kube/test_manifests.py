"""What `kubectl apply -k k8s` gives: the real API server takes all of it, and its rules are those of `ports`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.mapping import job_object, status_form
from adapters.k8s.workloads import KubeWorkloads
from ports.endpoints import ENDPOINT_TRANSITIONS
from ports.workloads import TRANSITIONS, ExitKind, Job, Phase, RunState
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


def test_the_dockerfile_copies_what_there_is() -> None:
    """A build that fails for a folder that was renamed is found here."""
    root = MANIFESTS.parent
    copied = re.findall(r"^COPY (.+) \S+$", (MANIFESTS / "Dockerfile").read_text(), re.MULTILINE)
    sources = [Path(part) for line in copied for part in line.split()]
    assert sources
    assert [] == [str(each) for each in sources if not (root / each).exists()]
