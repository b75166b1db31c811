"""What a replay comes to: the figures that a capacity planner compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from attrs import frozen

from core.owners import is_provider
from core.simulation.arrivals import wanted
from core.simulation.submissions import Moment, Outcome, Replayed
from ports.credits import PLATFORM
from ports.nodes import ORG
from ports.units import Credits, Instant, Span


@frozen
class Revenue:
    """What each has earned. by_provider: their parts of `providers`."""

    org: Credits
    providers: Credits
    platform: Credits
    by_provider: dict[str, Credits]

    @property
    def total(self) -> Credits:
        return self.org + self.providers + self.platform


@frozen
class Figures:
    """jobs: all that came. refused: of them, those that no machine could ever hold; refused_share: their part of the VRAM asked for.
    waited: jobs that were not placed at once.

    allocated: VRAM booked over the fleet's, averaged over the time in which jobs came; peak: its highest.
    queue_mean: jobs waiting, likewise averaged; queue_peak: the most.
    wait_*: from submit to placement, over all that were placed; a quantile is the wait of some job (nearest rank).
    """

    jobs: int
    refused: int
    refused_share: float
    waited: int
    allocated: float
    peak: float
    queue_mean: float
    queue_peak: int
    wait_mean: Span
    wait_p50: Span
    wait_p90: Span
    wait_p99: Span
    wait_max: Span
    revenue: Revenue


def figures(replayed: Replayed) -> Figures:
    placed = [each for each in replayed.outcomes if each.booked_at is not None]
    refused = [each for each in replayed.outcomes if each.booked_at is None]
    waits = sorted(each.waited.ms for each in placed)
    moments, fleet = replayed.moments, max(1, replayed.fleet)
    window = _window(replayed)
    asked = sum(wanted(each.submission.ask) for each in replayed.outcomes)
    return Figures(
        jobs=len(replayed.outcomes),
        refused=len(refused),
        refused_share=sum(wanted(each.submission.ask) for each in refused) / max(1, asked),
        waited=sum(wait > 0 for wait in waits),
        allocated=_mean(moments, [each.booked for each in moments], window) / fleet,
        peak=max((each.booked for each in moments), default=0) / fleet,
        queue_mean=_mean(moments, [each.waiting for each in moments], window),
        queue_peak=max((each.waiting for each in moments), default=0),
        wait_mean=Span(sum(waits) // max(1, len(waits))),
        wait_p50=quantile(waits, 50),
        wait_p90=quantile(waits, 90),
        wait_p99=quantile(waits, 99),
        wait_max=quantile(waits, 100),
        revenue=revenue(placed),
    )


def revenue(outcomes: Sequence[Outcome], by: Instant | None = None) -> Revenue:
    """What was earned by then, or (None) in the end."""
    earned: dict[str, Credits] = {}
    for account, amount in (each for outcome in outcomes for each in outcome.earned(by).items()):
        earned[account] = earned.get(account, Credits(0)) + amount
    providers = {account: earned[account] for account in sorted(earned) if is_provider(account)}
    total = Credits(sum(each.micro for each in providers.values()))
    return Revenue(earned.get(ORG, Credits(0)), total, earned.get(PLATFORM, Credits(0)), providers)


def quantile(waits: Sequence[int], per_cent: int) -> Span:
    """Nearest rank over ascending milliseconds; 0 for none."""
    return Span(waits[max(0, -(-len(waits) * per_cent // 100) - 1)]) if waits else Span(0)


def _window(replayed: Replayed) -> tuple[int, int]:
    """From the first arrival to the last; to the end of all if they are one instant. In milliseconds."""
    if not replayed.outcomes:
        return 0, 0
    first, last = replayed.outcomes[0].submission.at.ms, replayed.outcomes[-1].submission.at.ms
    return first, last if last > first else replayed.moments[-1].at.ms


def _mean(moments: Sequence[Moment], values: Sequence[int], window: tuple[int, int]) -> float:
    """Of a value that holds from its moment to the next, over the window."""
    first, last = window
    return sum(value * span for value, span in zip(values, _held(moments, first, last), strict=False)) / max(1, last - first)


def _held(moments: Sequence[Moment], first: int, last: int) -> Iterator[int]:
    for here, after in pairwise(moments):
        yield max(0, min(after.at.ms, last) - max(here.at.ms, first))
