"""A replay's figures for people (a table) and for programs (one JSON object). With several seeds: their means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from rich.table import Table

from core.simulation.figures import Figures, Revenue
from ports.units import Credits

Shown = dict[str, int | float]


def numbers(found: Figures) -> Shown:
    """Shares in per cent, times in seconds."""
    return {
        "jobs": found.jobs,
        "refused": _per_cent(found.refused_share),
        "refused_jobs": found.refused,
        "waited_jobs": found.waited,
        "allocated": _per_cent(found.allocated),
        "allocated_peak": _per_cent(found.peak),
        "queue_mean": round(found.queue_mean, 3),
        "queue_peak": found.queue_peak,
        "wait_mean_s": found.wait_mean.seconds,
        "wait_p50_s": found.wait_p50.seconds,
        "wait_p90_s": found.wait_p90.seconds,
        "wait_p99_s": found.wait_p99.seconds,
        "wait_max_s": found.wait_max.seconds,
    }


def as_json(by_seed: Mapping[int, Figures]) -> dict[str, object]:
    """Of one policy. Money in credits, as text."""
    found: dict[str, object] = {**mean([numbers(each) for each in by_seed.values()])}
    found["revenue"] = money(mean_revenue([each.revenue for each in by_seed.values()]))
    if len(by_seed) > 1:
        found["seeds"] = {str(seed): {**numbers(each), "revenue": money(each.revenue)} for seed, each in by_seed.items()}
    return found


def mean(each: Sequence[Shown]) -> Shown:
    return each[0] if len(each) == 1 else {name: round(fmean(one[name] for one in each), 3) for name in each[0]}


def mean_revenue(each: Sequence[Revenue]) -> Revenue:
    """Rounded down to the micro-credit."""
    names = sorted({name for one in each for name in one.by_provider})
    return Revenue(
        _mean([one.org for one in each]),
        _mean([one.providers for one in each]),
        _mean([one.platform for one in each]),
        {name: _mean([one.by_provider.get(name, Credits(0)) for one in each]) for name in names},
    )


def money(found: Revenue) -> dict[str, object]:
    by_provider = {name: str(amount) for name, amount in found.by_provider.items()}
    return {"org": str(found.org), "providers": str(found.providers), "platform": str(found.platform), "by_provider": by_provider}


def table(by_policy: Mapping[str, Mapping[int, Figures]], gpus: int) -> Table:
    """One column per policy."""
    seeds = max(len(each) for each in by_policy.values())
    title = f"{gpus:,} GPUs" + (f", mean of {seeds} seeds" if seeds > 1 else "")
    made = Table("", title=title, title_justify="left")
    for name in by_policy:
        made.add_column(name, justify="right")
    columns = [_cells(list(each.values())) for each in by_policy.values()]
    for name in columns[0]:
        made.add_row(name, *(column[name] for column in columns), end_section=name in _SECTIONS)
    return made


_SECTIONS = ("refused", "at most", "waiting at once", "longest wait")


def _cells(each: Sequence[Figures]) -> dict[str, str]:
    shown, earned = mean([numbers(one) for one in each]), mean_revenue([one.revenue for one in each])
    return {
        "jobs": f"{shown['jobs']:,.0f}",
        "refused": f"{shown['refused']:.2f} %",
        "allocated": f"{shown['allocated']:.2f} %",
        "at most": f"{shown['allocated_peak']:.2f} %",
        "jobs that waited": f"{shown['waited_jobs']:,.0f}",
        "queue, mean": f"{shown['queue_mean']:,.2f}",
        "waiting at once": f"{shown['queue_peak']:,.0f}",
        "wait, mean": duration(shown["wait_mean_s"]),
        "wait, p50": duration(shown["wait_p50_s"]),
        "wait, p99": duration(shown["wait_p99_s"]),
        "longest wait": duration(shown["wait_max_s"]),
        "revenue of org": _credits(earned.org),
        "of providers": _credits(earned.providers),
        "of the platform": _credits(earned.platform),
    }


def duration(seconds: float) -> str:
    """ "0 s", "42 s", "12.3 min", "5.2 h", "8.1 d"."""
    for unit, size in (("d", 2 * 86_400), ("h", 2 * 3_600), ("min", 2 * 60)):
        if seconds >= size:
            return f"{seconds / (size / 2):,.1f} {unit}"
    return f"{seconds:.3g} s"


def _credits(amount: Credits) -> str:
    return f"{amount.micro / 1_000_000:,.2f}"


def _per_cent(share: float) -> float:
    return round(100 * share, 3)


def _mean(each: Sequence[Credits]) -> Credits:
    return Credits(sum(one.micro for one in each) // len(each))
