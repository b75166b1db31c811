"""Objects that somebody made by hand: each is found by its name, and none of them stops the reading of the others."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.k8s import names
from adapters.k8s.mapping import created_key, job_key, job_of
from ports.workloads import FUNDED, ConditionStatus


def made(**spec: Any) -> dict[str, Any]:
    blob = {"sha256": "a" * 64, "size": 1}
    return {
        "metadata": {
            "name": "train.v2",
            "uid": "u",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {},
        },
        "spec": {"user": "ann", "name": "train", "vram": 1, "functionRef": blob, "argsRef": blob, **spec},
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize("name", ["train.v2", "ip-10-0-0-1.ec2.internal", "x-ray", "a" * 253, "1"])
def test_an_object_is_found_by_the_name_that_it_was_given(name: str) -> None:
    """Else a job would never be looked at, and a node would get a second record."""
    assert name == names.object_name(job_key({"name": name}))


@pytest.mark.parametrize("key", ["", "A", "a b", "a..b", "-a", "a.", "ä", "a" * 254, names.object_name("A")])
def test_what_is_no_name_is_hashed(key: str) -> None:
    name = names.object_name(key)
    assert name != key
    assert key == job_key({"name": name, "annotations": {names.ID: key}})


def test_an_annotation_that_reads_as_another_jobs_run_is_no_id() -> None:
    """Whoever may make objects may write any annotation; the object goes by its own name then."""
    name = names.object_name("job-1/2")
    assert name == job_key({"name": name, "annotations": {names.ID: "job-1/2"}})


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"Pending"', '{"phase": "Nowhere"}', '{"phase": "Pending", "runs": [1]}'])
def test_a_first_status_that_can_not_be_read_is_none(text: str) -> None:
    form = made()
    form["metadata"]["annotations"][names.INITIAL] = text
    funded = job_of(form).status.condition(FUNDED)
    assert funded is not None
    assert ConditionStatus.UNKNOWN is funded.status


def test_a_creation_in_a_year_that_is_none_is_the_objects_own() -> None:
    form = made(createdAt="0000-01-01T00:00:00Z")
    assert job_of(form).created_at == job_of(made()).created_at
    assert created_key(form) == created_key(made())
