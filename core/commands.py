"""The commands that prepare a run on one of its nodes and keep it supplied: what it needs, and the grants to fetch and to leave it."""

from __future__ import annotations

from core.fleet import Hardware
from core.house import House
from ports.blobs import INPUTS, Grant, input_key, run_prefix
from ports.cluster import Input, Prepare, Renew
from ports.workloads import Job, RunState


def prepare_command(house: House, job: Job, node: str, hardware: Hardware) -> Prepare:
    run, spec = job.status.run, job.spec
    if run is None:
        raise ValueError(f"{job.id} has no run to prepare")
    slots = tuple(slot for slot in run.placement if slot.node == node)
    totals = tuple(hardware.gpu(slot.node, slot.gpu).total for slot in slots)
    output, bound = output_grant(house, job), house.terms.setup_bound
    return Prepare(run.id, spec.user, spec.name, slots, totals, spec.env, _inputs(house, job), output, bound, job.uid)


def renew_command(house: House, job: Job) -> Renew:
    """Also to fetch, as long as the run has not been told to go: a term that ended may have taken what served the old grants along."""
    run = job.status.run
    if run is None:
        raise ValueError(f"{job.id} has no run whose grants could be renewed")
    return Renew(run.id, output_grant(house, job), _inputs(house, job) if run.state is RunState.BOOKED else {})


def _inputs(house: House, job: Job) -> dict[str, Input]:
    spec, expires = job.spec, house.clock.now() + house.terms.grant_life
    blobs = dict(zip(INPUTS, (spec.function, spec.args, spec.code, spec.env.working_dir), strict=True))
    return {
        name: Input(blob.sha256, blob.size, house.blobs.grant_read(input_key(job.id, job.uid, name), expires))
        for name, blob in blobs.items()
        if blob is not None
    }


def output_grant(house: House, job: Job) -> Grant:
    """Permission to write below the run's prefix, and nowhere else."""
    run = job.status.run
    attempt = run.id.attempt if run is not None else job.status.attempt
    return house.blobs.grant_write(run_prefix(job.id, attempt), house.terms.max_result, house.clock.now() + house.terms.grant_life)
