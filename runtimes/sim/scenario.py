"""What one replay is of: a fleet and its owners, a trace and its users, prices. One seed gives one scenario."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from core.simulation.submissions import Submission
from core.simulation.trace import Machine
from ports.tariffs import Tariff
from runtimes.sim import fleets, prices, ranges, timed, usage
from runtimes.sim.openb import read_nodes


@frozen
class Options:
    """As the command line gives them. free_share: of jobs. providers: share of the GPUs. fleet_share: of the nodes.
    speed: how many times as fast jobs come. days: "" or which of the trace. fee: per cent; rates: credits per hour."""

    free_share: float = 0.5
    providers: float = 0.3
    fleet_share: float = 1.0
    speed: float = 1.0
    days: str = ""
    add: tuple[str, ...] = ()
    price: tuple[str, ...] = ()
    base_rate: str = "0"
    vram_rate: str = "1"
    fee: str = "0"


@frozen
class Scenario:
    machines: tuple[Machine, ...]
    submissions: tuple[Submission, ...]
    tariff: Tariff


def scenarios(nodes: Path, pods: Path, options: Options) -> Callable[[int], Scenario]:
    """Reads both files once; gives what makes the scenario of a seed. Raises Invalid for a file or an option that can't be used."""
    free, speed = ranges.share(options.free_share, "--free-share"), ranges.positive(options.speed, "--speed")
    theirs, part = ranges.share(options.providers, "--providers"), ranges.positive(options.fleet_share, "--fleet-share", 1)
    base, more = fleets.part(read_nodes(nodes), part), fleets.added(options.add)

    def fleet(seed: int) -> tuple[tuple[Machine, ...], Tariff]:
        machines = (*fleets.rented(base, theirs, seed), *more)
        return machines, prices.tariff(options.price, options.base_rate, options.vram_rate, options.fee, machines)

    if usage.is_usage(pods):
        used = usage.read_usage(pods)

        def of_usage(seed: int) -> Scenario:
            machines, tariff = fleet(seed)
            return Scenario(machines, tuple(usage.submissions(used, machines, tariff, seed, free, speed)), tariff)

        return of_usage
    rows = timed.read_timed(pods)
    if options.days:
        rows = timed.between(rows, *ranges.days(options.days))

    def of_trace(seed: int) -> Scenario:
        machines, tariff = fleet(seed)
        return Scenario(machines, tuple(timed.submissions(rows, base, seed, free, speed)), tariff)  # asks stay as nodes are added

    return of_trace
