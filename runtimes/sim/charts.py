"""The four pictures of a replay. See `runtimes.sim.pictures`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import nan, sqrt

from attrs import frozen
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from core.owners import FREE, PAID
from core.simulation.history import booked_at, busiest, earnings
from core.simulation.submissions import Replayed
from core.simulation.trace import Machine
from ports.nodes import ORG
from ports.units import Instant
from runtimes.sim.replays import Replays

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LINES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#E69F00", "-"), ("#56B4E9", "--"))
ORG_COLOUR, PROVIDERS_COLOUR, PLATFORM_COLOUR, IDLE = "#0072B2", "#E69F00", "#009E73", "#e8e8e8"
LEAST_HOURS = 1 / 60  # up to here the axis of waits is linear
WAITS = {0: "0", 1 / 60: "1 min", 1 / 6: "10 min", 1: "1 h", 6: "6 h", 24: "1 d", 7 * 24: "7 d", 60 * 24: "60 d", 365 * 24: "1 y"}  # hours
FEW = 800  # GPUs, up to which each cell gets an edge
POINTS = 120  # instants at which earnings are computed


@frozen
class Axis:
    """Time from the first arrival, in a unit that suits it."""

    unit: str
    ms: int

    @staticmethod
    def over(ms: int) -> Axis:
        return Axis("days", DAY_MS) if ms > 3 * DAY_MS else Axis("hours", HOUR_MS)


def allocation(runs: Replays) -> Figure:
    """Share of the fleet's VRAM that is booked, and jobs that wait, over time."""
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    axis = Axis.over(max(each.outcomes[-1].submission.at.ms for each in runs.shown().values()))
    for (colour, dashes), (name, each) in zip(_cycled(len(runs.by_policy)), runs.shown().items(), strict=True):
        times = [moment.at.ms / axis.ms for moment in each.moments]
        look = {"color": colour, "ls": dashes, "lw": 1, "where": "post", "label": name}
        above.step(times, [100 * moment.booked / each.fleet for moment in each.moments], **look)
        below.step(times, [moment.waiting for moment in each.moments], **look)
    last = max(each.outcomes[-1].submission.at.ms for each in runs.shown().values()) / axis.ms
    busy = max([last, *(moment.at.ms / axis.ms for each in runs.shown().values() for moment in each.moments if moment.waiting)])
    below.set_xlim(-0.01 * busy, 1.1 * busy)  # what only runs out afterwards is left out
    for panel in (above, below):
        panel.axvline(last, color="0.5", lw=0.8, ls=":")
        panel.grid(alpha=0.25)
    label = {"xycoords": ("data", "axes fraction"), "xytext": (0, 4), "textcoords": "offset points"}
    above.annotate("last arrival", (last, 1), ha="center", color="0.4", **label)
    above.set(title=f"How full the fleet is ({runs.gpus:,} GPUs)", ylabel="VRAM booked (%)", ylim=(0, 102))
    below.set(title="Queue", ylabel="jobs waiting", xlabel=f"time since the first arrival ({axis.unit})")
    below.set_ylim(bottom=0)
    above.legend(loc="upper left")
    return figure


def gpus(runs: Replays) -> Figure:
    """Every GPU at the moment when most was booked: one cell each, by owner and model."""
    shown = runs.shown()
    blocks = _blocks(runs.first.machines)
    figure = Figure(figsize=(min(16, 1.5 + 6.5 * len(shown)), 7), layout="constrained")
    panels = figure.subplots(1, len(shown), squeeze=False)[0]
    for panel, (name, each) in zip(panels, shown.items(), strict=True):
        image = _map(panel, name, each, blocks, _axis(runs))
    scale = figure.colorbar(image, ax=list(panels), shrink=0.6, extend="min", label="VRAM booked (% of the GPU)")
    scale.ax.text(1.2, -0.06, "idle", transform=scale.ax.transAxes, va="center")
    figure.suptitle("VRAM of every GPU when most was booked (one cell each)")
    return figure


def waits(runs: Replays) -> Figure:
    """Share of the jobs that waited longer than a time, by plan."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    longest = max(one.waited.ms for each in runs.shown().values() for one in each.outcomes) / HOUR_MS
    for panel, plan in zip(panels, (FREE, PAID), strict=True):
        for (colour, dashes), (name, each) in zip(_cycled(len(runs.by_policy)), runs.shown().items(), strict=True):
            found = sorted(one.waited.ms for one in each.outcomes if one.booked_at is not None and one.submission.plan == plan)
            longer = [100 * (len(found) - at) / len(found) for at in range(len(found))]
            label = f"{name} ({len(found):,} jobs)"
            panel.step([wait / HOUR_MS for wait in found], longer, where="pre", color=colour, ls=dashes, label=label)
        panel.set(title=f"{plan} plan", xlabel="waited at least", ylim=(0, 102))
        panel.set_xscale("symlog", linthresh=LEAST_HOURS)
        panel.set_xticks(list(WAITS), list(WAITS.values()))
        panel.minorticks_off()
        panel.set_xlim(0, 1.2 * max(LEAST_HOURS, longest))
        panel.grid(alpha=0.25)
        panel.legend(loc="upper right")
    panels[0].set_ylabel("share of the placed jobs (%)")
    figure.suptitle("How long jobs wait for a GPU")
    return figure


def revenue(runs: Replays) -> Figure:
    """What org, providers and platform have earned, over time."""
    shown, axis = runs.shown(), _axis(runs)
    figure = Figure(figsize=(min(16, 2 + 5.5 * len(shown)), 4.6), layout="constrained")
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for panel, (name, each) in zip(panels, shown.items(), strict=True):
        end = each.moments[-1].at.ms
        instants = [Instant(end * at // POINTS) for at in range(POINTS + 1)]
        found = earnings(each, instants)
        parts = [[getattr(one, which).micro / 1e6 for one in found] for which in ("org", "providers", "platform")]
        labels = [f"{which}: {part[-1]:,.0f}" for which, part in zip(("org", "providers", "platform"), parts, strict=True)]
        colours = (ORG_COLOUR, PROVIDERS_COLOUR, PLATFORM_COLOUR)
        panel.stackplot([one.ms / axis.ms for one in instants], parts, labels=labels, colors=colours, alpha=0.9)
        panel.set(title=name, xlabel=f"time since the first arrival ({axis.unit})")
        panel.margins(x=0)
        panel.grid(alpha=0.25)
        panel.legend(loc="upper left", title="in the end (credits)", reverse=True)
    panels[0].set_ylabel("earned so far (credits)")
    panels[0].yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.suptitle("Revenue of the organisation, of providers and of the platform")
    return figure


# ---------------------------------------------------------------- inside


@frozen
class Block:
    """GPUs of one model, of org or of all providers, in the order in which they are drawn. total: MiB of each."""

    owners: str
    model: str
    cells: tuple[tuple[str, int], ...]
    total: int


def _blocks(machines: Sequence[Machine]) -> list[Block]:
    def key(each: Machine) -> tuple[bool, str]:
        return each.owner != ORG, each.model

    made = []
    for (theirs, model), each in groupby(sorted(machines, key=lambda each: (*key(each), each.owner, each.name)), key=key):
        nodes = list(each)
        cells = tuple((node.name, index) for node in nodes for index in range(node.gpus))
        made.append(Block("providers" if theirs else ORG, model, cells, nodes[0].total.n))
    return made


def _map(panel: Axes, name: str, replayed: Replayed, blocks: Sequence[Block], axis: Axis) -> QuadMesh:
    moment = busiest(replayed)
    booked = booked_at(replayed, moment.at) if moment is not None else {}
    count = sum(len(block.cells) for block in blocks)
    wide = max(8, 8 * round(sqrt(count) / 8))
    gap, line = max(0.35, 0.018 * count / wide), 0.8 if count < FEW else 0
    colours, scale = colormaps["cividis_r"].with_extremes(under=IDLE), Normalize(0.001, 100)
    top, marks = 0.0, list[float]()
    for block in blocks:
        shares = [100 * booked[cell].n / block.total if cell in booked else 0.0 for cell in block.cells]
        rows = [(shares[at : at + wide] + [nan] * wide)[:wide] for at in range(0, len(shares), wide)]
        edges = [top + at for at in range(len(rows) + 1)]
        image = panel.pcolormesh(range(wide + 1), edges, rows, edgecolors="white", linewidth=line, cmap=colours, norm=scale)
        marks.append((edges[0] + edges[-1]) / 2)
        top = edges[-1] + gap
    panel.set_ylim(top - gap, 0)
    panel.set_yticks(marks, [f"{block.owners} {block.model}, {len(block.cells):,}" for block in blocks])
    panel.set_xticks([])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    if moment is not None:
        when = f"{moment.at.ms / axis.ms:.1f} {axis.unit} after the first arrival"
        panel.set_title(f"{name}: {100 * moment.booked / max(1, replayed.fleet):.1f} % booked,\n{when}", fontsize=11)
    return image


def _axis(runs: Replays) -> Axis:
    return Axis.over(max(each.moments[-1].at.ms for each in runs.shown().values()))


def _cycled(count: int) -> list[tuple[str, str]]:
    return [LINES[at % len(LINES)] for at in range(count)]
