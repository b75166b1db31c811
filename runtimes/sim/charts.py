"""The four pictures of a replay. See `runtimes.sim.pictures`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import ceil, nan, sqrt

from attrs import frozen
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from core.owners import FREE, PAID
from core.simulation.history import booked_at, busiest, earnings
from core.simulation.submissions import Replayed
from core.simulation.trace import Machine
from ports.units import Instant
from runtimes.sim.replays import Replays

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
LINES = (("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#E69F00", "-"), ("#56B4E9", "--"))
ORG_COLOUR, PROVIDERS_COLOUR, PLATFORM_COLOUR, IDLE = "#0072B2", "#E69F00", "#009E73", "#e8e8e8"
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
    axis = _axis(runs)
    for (colour, dashes), (name, each) in zip(_cycled(len(runs.by_policy)), runs.shown().items(), strict=True):
        times = [moment.at.ms / axis.ms for moment in each.moments]
        above.step(
            times, [100 * moment.booked / each.fleet for moment in each.moments], color=colour, ls=dashes, lw=1, where="post", label=name
        )
        below.step(times, [moment.waiting for moment in each.moments], color=colour, ls=dashes, lw=1, where="post", label=name)
    last = max(each.outcomes[-1].submission.at.ms for each in runs.shown().values()) / axis.ms
    for panel in (above, below):
        panel.axvline(last, color="0.5", lw=0.8, ls=":")
        panel.grid(alpha=0.25)
        panel.margins(x=0.01)
    place = {"xycoords": ("data", "axes fraction"), "xytext": (-4, -12), "textcoords": "offset points"}
    above.annotate("last arrival", (last, 1), ha="right", color="0.4", **place)
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
    figure.suptitle("VRAM of every GPU when most was booked (a cell is a GPU; GPUs of a node lie side by side)")
    return figure


def waits(runs: Replays) -> Figure:
    """Share of the jobs that waited longer than a time, by plan."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, plan in zip(panels, (FREE, PAID), strict=True):
        for (colour, dashes), (name, each) in zip(_cycled(len(runs.by_policy)), runs.shown().items(), strict=True):
            found = sorted(one.waited.ms for one in each.outcomes if one.booked_at is not None and one.submission.plan == plan)
            longer = [100 * (len(found) - at) / len(found) for at in range(len(found))]
            panel.step(
                [wait / HOUR_MS for wait in found], longer, where="pre", color=colour, ls=dashes, label=f"{name} ({len(found):,} jobs)"
            )
        panel.set(title=f"{plan} plan", xlabel="waited at least (hours)", ylim=(0, 102))
        panel.set_xscale("symlog", linthresh=0.1)
        panel.set_xlim(left=0)
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
    figure.suptitle("Revenue of the organisation, of providers and of the platform")
    return figure


# ---------------------------------------------------------------- inside


@frozen
class Block:
    """GPUs of one owner and model, in the order in which they are drawn."""

    owner: str
    model: str
    cells: tuple[tuple[str, int], ...]
    total: int


def _blocks(machines: Sequence[Machine]) -> list[Block]:
    def key(each: Machine) -> tuple[bool, str, str]:
        return each.owner != "org", each.owner, each.model

    made = []
    for (_, owner, model), each in groupby(sorted(machines, key=lambda each: (*key(each), each.name)), key=key):
        nodes = list(each)
        cells = tuple((node.name, index) for node in nodes for index in range(node.gpus))
        made.append(Block(owner, model, cells, nodes[0].total.n))
    return made


def _map(panel: Axes, name: str, replayed: Replayed, blocks: Sequence[Block], axis: Axis) -> AxesImage:
    moment = busiest(replayed)
    booked = booked_at(replayed, moment.at) if moment is not None else {}
    count = sum(len(block.cells) for block in blocks)
    wide = max(16, 8 * ceil(sqrt(count) / 8))
    rows: list[list[float]] = []
    marks: list[tuple[float, str]] = []
    for block in blocks:
        first = len(rows)
        shares = [100 * booked[cell].n / block.total if cell in booked else 0.0 for cell in block.cells]
        rows += [(shares[at : at + wide] + [nan] * wide)[:wide] for at in range(0, len(shares), wide)]
        marks.append(((first + len(rows) - 1) / 2, f"{block.owner.removeprefix('provider:')}  {block.model}  {len(block.cells):,}"))
        rows += [[nan] * wide] * (1 + count // 2000)
    colours = colormaps["cividis_r"].with_extremes(under=IDLE, bad="white")
    image = panel.imshow(
        rows, cmap=colours, vmin=0.001, vmax=100, aspect="auto" if len(rows) > wide / 2 else "equal", interpolation="nearest"
    )
    panel.set_yticks([at for at, _ in marks], [text for _, text in marks], fontsize=7 if len(marks) > 16 else 9)
    panel.set_xticks([])
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    share = 100 * moment.booked / max(1, replayed.fleet) if moment is not None else 0
    when = f"{moment.at.ms / axis.ms:.1f} {axis.unit} after the first arrival" if moment is not None else ""
    panel.set_title(f"{name}: {share:.1f} % booked, {when}", fontsize=10)
    return image


def _axis(runs: Replays) -> Axis:
    return Axis.over(max(each.moments[-1].at.ms for each in runs.shown().values()))


def _cycled(count: int) -> list[tuple[str, str]]:
    return [LINES[at % len(LINES)] for at in range(count)]
