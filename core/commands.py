"""The command that prepares a run on one of its nodes: what it needs, and the grants to fetch and to leave it."""

from __future__ import annotations

from core.fleet import Hardware
from core.house import House
from ports.blobs import INPUTS, Grant, input_key, run_prefix
from ports.cluster import Input, Prepare
from ports.workloads import Job


def prepare_command(house: House, job: Job, node: str, hardware: Hardware) -> Prepare:
    run, spec = job.status.run, job.spec
    if run is None:
        raise ValueError(f"{job.id} has no run to prepare")
    slots = tuple(slot for slot in run.placement if slot.node == node)
    expires = house.clock.now() + house.terms.grant_life
    blobs = dict(zip(INPUTS, (spec.function, spec.args, spec.code, spec.env.working_dir), strict=True))
    inputs = {
        name: Input(blob.sha256, blob.size, house.blobs.grant_read(input_key(job.id, job.uid, name), expires))
        for name, blob in blobs.items()
        if blob is not None
    }
    totals = tuple(hardware.gpu(slot.node, slot.gpu).total for slot in slots)
    output, bound = output_grant(house, job), house.terms.setup_bound
    return Prepare(run.id, spec.user, spec.name, slots, totals, spec.env, inputs, output, bound, job.uid)


def output_grant(house: House, job: Job) -> Grant:
    """Permission to write below the run's prefix, and nowhere else."""
    run = job.status.run
    attempt = run.id.attempt if run is not None else job.status.attempt
    return house.blobs.grant_write(run_prefix(job.id, attempt), house.terms.max_result, house.clock.now() + house.terms.grant_life)
