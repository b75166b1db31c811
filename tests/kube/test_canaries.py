"""The search for secrets sees all of a namespace: objects of ours, their status, and what others keep beside them."""

from __future__ import annotations

import base64
import json

import pytest
from attrs import evolve

from adapters.k8s.client import KubeClient
from adapters.k8s.workloads import KubeWorkloads
from ports.workloads import Environment
from tests.canaries import ADMIN_TOKEN, RUN_SECRET, Canaries
from tests.contract.samples import a_full_job, a_job
from tests.kube.plane import Plane
from tests.sinks import objects


def in_a_status(client: KubeClient, plane: Plane) -> None:
    job = a_full_job("job-1")
    KubeWorkloads(client).create(evolve(job, status=evolve(job.status, message=f"refused: {ADMIN_TOKEN}")))


def in_an_event(client: KubeClient, plane: Plane) -> None:
    event = {"message": ADMIN_TOKEN, "reason": "Placed", "type": "Normal", "metadata": {"name": "told"}}
    about = {"involvedObject": {"kind": "GridweaveJob", "name": "job-1", "namespace": client.namespace}}
    create(client, plane, {"apiVersion": "v1", "kind": "Event", **event, **about})


def in_an_annotation(client: KubeClient, plane: Plane) -> None:
    annotations = {"note": base64.b64encode(f"token:{ADMIN_TOKEN}".encode()).decode()}
    create(client, plane, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "annotations": annotations}})


def create(client: KubeClient, plane: Plane, form: dict[str, object]) -> None:
    done = plane.kubectl("create", "-f", "-", namespace=client.namespace, stdin=json.dumps(form))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("plant", [in_a_status, in_an_event, in_an_annotation])
def test_a_secret_in_any_object_is_found(client: KubeClient, plane: Plane, plant: object) -> None:
    """Whoever may read objects is not whoever may read secrets."""
    assert callable(plant)
    assert () == Canaries().search(objects(plane, client.namespace)).found
    plant(client, plane)
    assert {"ADMIN_TOKEN"} == {each.partition(" in ")[0] for each in Canaries().search(objects(plane, client.namespace)).found}


def test_the_environment_of_a_run_is_in_its_spec_and_in_nothing_else(client: KubeClient, plane: Plane) -> None:
    """There the scheduler reads it; a copy in a status or an event would be read by many more."""
    job = a_job("job-1")
    KubeWorkloads(client).create(evolve(job, spec=evolve(job.spec, env=Environment(env_vars={"TOKEN": RUN_SECRET}))))
    found = Canaries().search(objects(plane, client.namespace), allowed=()).found
    assert {"a variable of a run in kubernetes/gridweavejobs/job-1/spec"} == set(found)
    assert () == Canaries().search(objects(plane, client.namespace)).found
