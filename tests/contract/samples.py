"""Values that the contract suites store: one of each kind, and with as many fields set as there are."""

from __future__ import annotations

from attrs import evolve

from ports.credits import Charge
from ports.tariffs import Price, PriceLine
from ports.units import Credits, Instant, Mib, Rate, Span
from ports.workloads import (
    FUNDED,
    Ask,
    BlobRef,
    ConditionStatus,
    Environment,
    Exit,
    ExitKind,
    Job,
    JobSpec,
    JobStatus,
    Phase,
    Result,
    Run,
    RunId,
    RunState,
    Slot,
)


def a_job(key: str = "job-1", *, user: str = "alice", name: str = "square", at: int = 1000, labels: dict[str, str] | None = None) -> Job:
    """A job as it is when it was just submitted."""
    spec = JobSpec(user, "paid", name, Ask(Mib(8192)), BlobRef("a" * 64, 10), BlobRef("b" * 64, 20), labels=labels or {})
    return Job(key, f"uid of {key}", Instant(at), spec)


def a_full_job(key: str = "job-1") -> Job:
    """A job with every field set; an environment value holds a byte that is no UTF-8, as os.environ gives it."""
    price = Price(3, (PriceLine("org", Rate(8_000_000)), PriceLine("provider:acme", Rate(1, 3), 200_000)))
    ended = Exit(ExitKind.RAISED, 1, "SIGTERM", True, "no \u2028 luck", 'Traceback "…"\n', "last\tlines\x00")
    run = Run(
        RunId(key, 1),
        RunState.ENDED,
        (Slot("n1", 0, Mib(4096)), Slot("n1", 3, Mib(4096))),
        7,
        price,
        Instant(1),
        Instant(2),
        Instant(3),
        Span(4),
        ended,
    )
    spec = JobSpec(
        "alice@example.org",
        "free",
        "square",
        Ask(Mib(4096), 2, 1, "A100-80GB", "nvidia", "org", True),
        BlobRef("a" * 64, 10),
        BlobRef("b" * 64, 0),
        BlobRef("c" * 64, 512 * 1024 * 1024),
        Environment(("numpy==2.0",), ("attrs",), {"PATH_OF_MINE": "/a\udcff/ü/🦉", "EMPTY": ""}, BlobRef("d" * 64, 1)),
        Span.of(hours=2),
        {"team": "vision", "stage": ""},
        "3.11",
        "3.1.2",
        "e" * 64,
        Credits(16_000_000),
        False,
        Credits(2_500_000),
    )
    status = JobStatus(
        Phase.CLOSING,
        1,
        (run,),
        (),
        "for room",
        3,
        Instant(9),
        Phase.CANCELLED,
        "Asked",
        "The user asked for it.",
        Result(f"jobs/{key}/1/result", 5, "f" * 64, True),
        Credits(1),
    ).with_condition(FUNDED, ConditionStatus.TRUE, Instant(5), "Held", "16 credits")
    return Job(key, f"uid of {key}", Instant(1000), spec, status)


def to_phase(job: Job, phase: Phase) -> Job:
    return evolve(job, status=evolve(job.status, phase=phase))


def counted(job: Job) -> Job:
    """One more in a field that any writer may change."""
    return evolve(job, status=evolve(job.status, position=job.status.position + 1))


def a_charge(until: int, *, run: str = "job-1/1", uid: str = "uid-1", payer: str = "user:alice", **totals: int) -> Charge:
    """totals: micro-credits per account; `provider_x` stands for `provider:x`."""
    accounts = {name.replace("_", ":"): Credits(total) for name, total in totals.items()}
    return Charge(RunId.parse(run), uid, payer, Span(until), accounts)
