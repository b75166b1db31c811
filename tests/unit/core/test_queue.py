"""The queue: first come, first served, and nobody is overtaken to his cost."""

from __future__ import annotations

from core.fleet import GpuClass
from core.owners import Pool
from core.queue import Closed, Queue, Turn, narrowed
from ports.units import Instant, Mib
from ports.workloads import Ask, BlobRef, Job, JobSpec

BLOB = BlobRef("0" * 64, 1)
CLASSES = (GpuClass("org", "A100", "nvidia", Mib(81_920)), GpuClass("org", "L4", "nvidia", Mib(24_576)))


def job(name: str, at: int, *, mib: int = 1024, plan: str = "free", model: str | None = None) -> Job:
    return Job(name, f"uid-{name}", Instant(at), JobSpec("ann", plan, "f", Ask(Mib(mib), model=model), BLOB, BLOB))


def offered(queue: Queue, answers: dict[str, Turn], classes: tuple[GpuClass, ...] = CLASSES) -> list[str]:
    """The order in which jobs are offered a turn, when each answers as told (placed, if nothing is said)."""
    seen: list[str] = []

    def place(each: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        seen.append(each.id)
        return answers.get(each.id, Turn.PLACED)

    queue.round(place, classes)
    return seen


def test_jobs_are_offered_their_turn_by_age() -> None:
    """Fairness is age, not the order in which the scheduler heard of them."""
    queue = Queue()
    for each in (job("late", 3), job("early", 1), job("middle", 2)):
        queue.put(each)
    assert ["early", "middle", "late"] == offered(queue, {})
    assert 0 == len(queue)


def test_a_job_that_waits_closes_what_it_waits_for_to_later_ones_of_its_kind() -> None:
    """Else small jobs would starve a big one for ever."""
    queue = Queue()
    for each in (job("big", 1, mib=80_000), job("as-big", 2, mib=50_000)):
        queue.put(each)
    assert ["big"] == offered(queue, {"big": Turn.WAITS})
    assert 2 == len(queue)


def test_a_small_job_passes_a_big_one_on_gpus_that_are_too_small_for_it() -> None:
    """An idle L4 is no use to a job that waits for 80 GB; the small one may have it, and nothing else."""
    queue = Queue()
    for each in (job("big", 1, mib=80_000), job("small", 2)):
        queue.put(each)
    offers: dict[str, list[str | None]] = {}

    def place(each: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        offers[each.id] = [ask.model for pool in pools for ask in narrowed(each.spec.ask, pool, closed, CLASSES)]
        return Turn.WAITS

    queue.round(place, CLASSES)
    assert {"big": [None], "small": ["L4"]} == offers


def test_lines_form_anew_when_a_larger_kind_of_gpu_joins() -> None:
    """What could not be used yesterday may be waited for today."""
    queue = Queue()
    for each in (job("big", 1, mib=80_000), job("small", 2, mib=20_000)):
        queue.put(each)
    assert ["big", "small"] == offered(queue, dict.fromkeys(("big", "small"), Turn.WAITS))
    only_big = (GpuClass("org", "A100", "nvidia", Mib(81_920)),)
    assert ["big"] == offered(queue, dict.fromkeys(("big", "small"), Turn.WAITS), only_big)


def test_a_later_job_passes_when_it_wants_other_gpus() -> None:
    """A free GPU of a model that nobody earlier asked for must not stand idle."""
    queue = Queue()
    for each in (job("wants-a100", 1, model="A100"), job("wants-l4", 2, model="L4")):
        queue.put(each)
    assert ["wants-a100", "wants-l4"] == offered(queue, {"wants-a100": Turn.WAITS})


def test_a_paid_job_still_reaches_providers_when_only_org_is_closed() -> None:
    """A free user's wait for org hardware is no reason to keep a provider's GPU idle."""
    queue = Queue()
    queue.put(job("free", 1))
    queue.put(job("paid", 2, plan="paid"))
    pools_seen: dict[str, tuple[Pool, ...]] = {}

    def place(each: Job, pools: tuple[Pool, ...], closed: tuple[Closed, ...]) -> Turn:
        pools_seen[each.id] = pools
        return Turn.WAITS

    queue.round(place, CLASSES)
    assert {"free": (Pool("org"),), "paid": (Pool("providers"),)} == pools_seen


def test_a_job_that_no_machine_here_can_hold_delays_nobody() -> None:
    """It may wait for a node to come back for a day."""
    queue = Queue()
    for each in (job("impossible", 1, mib=10**6), job("small", 2), job("small-too", 3)):
        queue.put(each)
    assert ["impossible", "small", "small-too"] == offered(queue, {"impossible": Turn.ASIDE})
    assert 1 == len(queue)


def test_only_one_job_of_a_line_is_looked_at_when_there_is_no_room() -> None:
    """With ten thousand waiting, a round must not cost ten thousand tries."""
    queue = Queue()
    for n in range(10_000):
        queue.put(job(f"j{n:05}", n))
    assert ["j00000"] == offered(queue, {"j00000": Turn.WAITS})


def test_an_ask_for_any_model_is_narrowed_to_what_nobody_earlier_waits_for() -> None:
    """So it can be placed at once on an idle L4 while an earlier job waits for an A100."""
    closed = (Closed(Pool("org"), "A100", None),)
    asks = list(narrowed(Ask(Mib(1024)), Pool("org"), closed, CLASSES))
    assert [("L4", "nvidia")] == [(each.model, each.vendor) for each in asks]


def test_putting_a_job_again_keeps_its_place() -> None:
    """A change of its waiting text is no new arrival."""
    queue = Queue()
    queue.put(job("a", 1))
    queue.put(job("b", 2))
    queue.put(job("a", 1))
    assert ["a", "b"] == offered(queue, {})


def test_dropping_is_idempotent() -> None:
    queue = Queue()
    queue.put(job("a", 1))
    queue.drop("a")
    queue.drop("a")
    assert [] == offered(queue, {})
