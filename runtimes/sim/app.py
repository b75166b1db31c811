"""`gridweave-sim`: plan the capacity of a GPU cluster. A node list and a trace in, numbers and pictures out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from core.simulation.figures import figures
from ports.errors import GridweaveError
from runtimes.sim import policies, ranges, report
from runtimes.sim.packing import Shares, churned, filled
from runtimes.sim.replays import Replays, replayed
from runtimes.sim.scenario import Options, scenarios

app = App(name="gridweave-sim", help=__doc__, help_format="plaintext", version_flags=())

Json = Annotated[bool, Parameter(name="--json", negative="", help="One JSON object as the last line.")]
Policy = Annotated[list[str] | None, Parameter(negative="", help="A placement policy (best_fit); several are compared side by side.")]
Seeds = Annotated[str, Parameter(help='Seeds of chance: "0-9", "7" or "0-2,5". Figures are means over them.')]
Texts = list[str] | None


@app.command
def fill(nodes: Path, pods: Path, /, *, policy: Policy = None, seeds: Seeds = "0-9", as_json: Json = False) -> int:
    """How full the fleet gets when jobs only arrive: when 100 and 130 per cent of its VRAM have been asked for."""
    found = filled(nodes, pods, policies.checked(policy or policies.DEFAULT), ranges.seeds(seeds))
    _show(_shares("VRAM placed, per cent of the fleet's", found), found, as_json)
    return 0


@app.command
def churn(
    nodes: Path,
    pods: Path,
    /,
    *,
    policy: Policy = None,
    load: Annotated[Texts, Parameter(negative="", help="Offered load: VRAM wanted at a time over the fleet's (0.95, 1.10).")] = None,
    seeds: Seeds = "0-2",
    as_json: Json = False,
) -> int:
    """How full the fleet stays, and what is turned away, when jobs come and go and nobody waits."""
    found = churned(nodes, pods, policies.checked(policy or policies.DEFAULT), load or ["0.95", "1.10"], ranges.seeds(seeds))
    flat = {name: {f"{what} at {text}": value for text, each in by.items() for what, value in each.items()} for name, by in found.items()}
    _show(_shares("Per cent of the VRAM", flat), found, as_json)
    return 0


@app.command
def replay(
    nodes: Path,
    pods: Path,
    /,
    *,
    policy: Policy = None,
    seeds: Seeds = "0",
    free_share: Annotated[float, Parameter(help="Share of the jobs whose users have the free plan: org hardware only.")] = 0.5,
    providers: Annotated[float, Parameter(help="Share of the listed GPUs that providers own (by whole nodes).")] = 0.3,
    add: Annotated[Texts, Parameter(negative="", help='What if there were also these nodes: "20xA10:provider:acme", "2x8xG2:org".')] = None,
    fleet_share: Annotated[float, Parameter(help="Keep this share of the listed nodes, of every kind alike.")] = 1.0,
    days: Annotated[str, Parameter(help='Only what came on these days of the trace: "100-129".')] = "",
    speed: Annotated[float, Parameter(help="Jobs come so many times as fast, and run as long as they did.")] = 1.0,
    price: Annotated[
        Texts, Parameter(negative="", help='Credits per GPU and hour: "A10=0.9" of all owners, "provider:acme:A10=0.75" of one.')
    ] = None,
    base_rate: Annotated[str, Parameter(help="Credits per hour and run, where the model has no price.")] = "0",
    vram_rate: Annotated[str, Parameter(help="Credits per GB and hour, where the model has no price.")] = "1",
    fee: Annotated[str, Parameter(help="The platform's share of every run, in per cent.")] = "0",
    as_json: Json = False,
    plot: Annotated[Path | None, Parameter(help="Draw pictures into this folder (needs the extra `plots`).")] = None,
) -> int:
    """Play a trace through the real ledger, queue, owner policy and prices: who waits how long, who earns what.

    NODES: an openb node list. PODS: an openb pod list, or Gridweave's own usage export (GET /v1/usage as text/csv).
    """
    if plot is not None:
        from runtimes.sim.pictures import ready

        ready(plot)
    names, wanted = policies.checked(policy or policies.DEFAULT), ranges.seeds(seeds)
    options = Options(free_share, providers, fleet_share, speed, days, ranges.listed(add), ranges.listed(price), base_rate, vram_rate, fee)
    runs = replayed(scenarios(nodes, pods, options), names, wanted)
    by_policy = {name: {seed: figures(each) for seed, each in by_seed.items()} for name, by_seed in runs.by_policy.items()}
    notes = [f"drawn: {path}" for path in _drawn(runs, plot)]
    if not any(each.waited for by_seed in by_policy.values() for each in by_seed.values()):
        notes.append("Nobody waited. What if the fleet were smaller (--fleet-share 0.01), or jobs came faster (--speed 100)?")
    _show(report.table(by_policy, runs.gpus), {name: report.as_json(each) for name, each in by_policy.items()}, as_json, notes)
    return 0


def _drawn(runs: Replays, folder: Path | None) -> Sequence[Path]:
    if folder is None:
        return ()
    from runtimes.sim.pictures import draw

    return draw(runs, folder)


def _shares(title: str, found: dict[str, Shares]) -> Table:
    made = Table("", title=title, title_justify="left")
    for name in found:
        made.add_column(name, justify="right")
    for what in next(iter(found.values())):
        made.add_row(what, *(f"{each[what]:.2f}" for each in found.values()))
    return made


def _show(table: Table, found: object, as_json: bool, notes: Sequence[str] = ()) -> None:
    """The table for people goes to stderr when a program reads stdout."""
    console = Console(stderr=as_json)
    console.print(table)
    for each in notes:
        console.print(each, soft_wrap=True, highlight=False)
    if as_json:
        print(json.dumps(found))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 done, 2 something given can't be used, which is told on stderr."""
    try:
        return int(app(arguments, result_action="return_value") or 0)
    except GridweaveError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
