"""What use cases are given: the ports, and the terms of the house."""

from __future__ import annotations

from attrs import frozen

from core.policies import PlacementPolicy
from core.retention import KEPT, Retention
from ports.blobs import BlobStore
from ports.clock import Clock
from ports.credits import CreditService
from ports.metering import Metering
from ports.nodes import NodeRecords
from ports.randomness import Randomness
from ports.tariffs import Tariffs
from ports.units import Credits, Span
from ports.workloads import Workloads

EXPOSURE_LIMIT = Credits(100 * 1_000_000)  # an hour and a quarter of an 80 GB GPU at the default rates


@frozen
class Terms:
    """The rules that an operator sets.

    credits_enabled: False: no preflight, hold, tick or charge. preflight: what a hold must cover.
    python, cloudpickle: versions of the cluster, "" if not known. setup_bound: the longest that an environment may
    take to build. funding_bound: after it, a submit that a dead gateway left half done is finished by the scheduler.
    lost_after: a node that can't be asked for so long has lost its runs. result_bound: a result that could not be
    stored for so long is lost. grant_life: how long a grant works. max_result: bytes. retries: of an attempt whose
    user code never started. placement: which GPU an ask for one gets. archive_after: a job that was settled so long ago
    moves to the archive. exposure_limit: how much of what a user has run may be uncharged while new work of his is taken.
    retention: how long what lies in the blob store is kept.
    """

    credits_enabled: bool = False
    preflight: Span = Span.of(hours=1)
    python: str = ""
    cloudpickle: str = ""
    setup_bound: Span = Span.of(minutes=10)
    funding_bound: Span = Span.of(seconds=10)
    lost_after: Span = Span.of(seconds=90)
    result_bound: Span = Span.of(hours=24)
    grant_life: Span = Span.of(hours=1)
    max_result: int = 512 * 1024 * 1024
    retries: int = 3
    placement: PlacementPolicy = PlacementPolicy.BEST_FIT
    archive_after: Span = Span.of(hours=168)
    exposure_limit: Credits = EXPOSURE_LIMIT
    retention: Retention = KEPT


@frozen
class House:
    """The ports that use cases work with."""

    workloads: Workloads
    nodes: NodeRecords
    credits: CreditService
    tariffs: Tariffs
    blobs: BlobStore
    clock: Clock
    randomness: Randomness
    terms: Terms
    metering: Metering
