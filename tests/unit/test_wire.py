"""The wire: what is stored comes back equal, small, and with nothing in it that we do not know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cattrs import ClassValidationError
from hypothesis import given
from hypothesis import strategies as st

from ports.nodes import Gpu, NodeRecord, NodeState, NodeStatus
from ports.tariffs import Price
from ports.units import Credits, Instant, Mib, Span
from ports.wire import dump, load
from ports.workloads import Ask, BlobRef, Environment, Job, JobSpec, JobStatus, Phase, Run, RunId, RunState, Slot

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
whole = st.integers(0, 2**53)
asks = st.builds(Ask, mib=st.builds(Mib, whole), gpus=st.integers(1, 8), model=st.none() | names, exclusive=st.booleans())
blobs = st.builds(BlobRef, sha256=st.text("0123456789abcdef", min_size=64, max_size=64), size=whole)
environments = st.builds(Environment, pip=st.lists(names, max_size=3).map(tuple), env_vars=st.dictionaries(names, names, max_size=3))
plans = st.sampled_from(["free", "paid"])
specs = st.builds(JobSpec, names, plans, names, asks, blobs, blobs, env=environments, hold=st.builds(Credits, whole))
run_ids = st.builds(RunId, st.text("abc-0123", min_size=1), st.integers(1, 99), st.none() | st.integers(0, 9))
jobs = st.builds(Job, names, names, st.builds(Instant, whole), specs)


def job(**status: Any) -> Job:
    blob = BlobRef("0" * 64, 7)
    spec = JobSpec("ada", "paid", "square", Ask(Mib(8_192)), blob, blob)
    return Job("job-1", "uid-1", Instant(1_000), spec, JobStatus(**status))


@given(jobs)
def test_a_job_comes_back_equal(stored: Job) -> None:
    """A store that loses a field loses it silently."""
    assert stored == load(dump(stored), Job)


@given(run_ids)
def test_a_run_id_travels_as_text(run: RunId) -> None:
    """It is a key of JSON objects and part of URLs, so its text must hold all of it."""
    assert json.dumps(str(run)) == dump(run)
    assert run == load(dump(run), RunId)


def test_a_running_job_comes_back_with_units_and_enums() -> None:
    """Bare integers or strings would pass a test of equality of JSON, and fail in a decision."""
    run = Run(RunId("job-1", 1), RunState.RUNNING, (Slot("a", 0, Mib(8_192)),), 3, Price(1, ()), Instant(1), ran=Span(5))
    back = load(dump(job(phase=Phase.RUNNING, runs=(run,))), Job)
    assert (Phase.RUNNING, run) == (back.status.phase, back.status.run)
    found = back.status.runs[0]
    assert [Phase, RunState, Mib, Span] == [type(each) for each in (back.status.phase, found.state, found.placement[0].mib, found.ran)]


def test_fields_at_their_default_are_left_out() -> None:
    """A million archived jobs are small, and a field that a later release adds costs the old ones nothing."""
    assert '{"mib":8192}' == dump(Ask(Mib(8_192)))
    assert "status" not in json.loads(dump(job()))


def test_equal_values_give_equal_text() -> None:
    """A digest of the text stands for the value, in whichever order its mapping was filled."""
    there, back = NodeStatus(ran={"a/1": Span(1), "b/1": Span(2)}), NodeStatus(ran={"b/1": Span(2), "a/1": Span(1)})
    assert dump(there) == dump(back)


def test_text_of_every_language_stays_readable() -> None:
    """An operator reads stored forms with a database shell."""
    assert '{"mib":1,"model":"Größe-東京"}' == dump(Ask(Mib(1), model="Größe-東京"))


@pytest.mark.parametrize("kind", [Ask, Job, NodeRecord, Slot])
def test_an_unknown_field_is_refused(kind: type[Any]) -> None:
    """A newer release's field, dropped by an older one on its next write, would be lost for good."""
    known = {Ask: Ask(Mib(1)), Job: job(), NodeRecord: NodeRecord("a"), Slot: Slot("a", 0, Mib(1))}[kind]
    with pytest.raises(ClassValidationError):
        load(json.dumps(json.loads(dump(known)) | {"surprise": 1}), kind)


@pytest.mark.parametrize("amount", [1.0, 8192.5, "8192", True, None])
def test_a_unit_is_read_from_a_whole_number_only(amount: object) -> None:
    """A float in a store is money or VRAM that somebody has rounded already."""
    with pytest.raises(ClassValidationError):
        load(json.dumps({"mib": amount}), Ask)


def test_a_node_record_comes_back_equal() -> None:
    """The scheduler that takes over knows of a node what its record says, and nothing else."""
    status = NodeStatus(NodeState.READY, owner="provider:acme", gpus=(Gpu(0, "L4-24GB", "nvidia", Mib(24_576)),), ran={"j/1": Span(9)})
    record = NodeRecord("node-1", status=status, version="4")
    assert record == load(dump(record), NodeRecord)
