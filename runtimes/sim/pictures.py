"""Pictures of a replay, policies side by side: how full the fleet was, every GPU, the waits, who earned what.

Drawn with matplotlib, which is heavy and not needed for the figures: it comes with the extra `plots`. Colours are Okabe
and Ito's, and cividis: both can be told apart with any colour vision, and lines differ in their dashes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ports.errors import Invalid
from runtimes.sim.replays import Replays

try:
    from matplotlib.figure import Figure

    from runtimes.sim import charts
except ModuleNotFoundError as error:
    missing = str(error.name).partition(".")[0]
else:
    missing = ""


def ready(folder: Path) -> None:
    """Make the folder. Raises Invalid if it can't be, or if nothing can be drawn; so that it is known before the work begins."""
    if missing:
        remedy = f"Install it: pip install {missing} (make venv does)."
        raise Invalid(f"--plot draws with {missing}, which is not installed.", "--plot", remedy, str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(
            f"--plot {folder} is no folder that can be made: {error.strerror}.", "--plot", "Name another.", str(folder)
        ) from error


def draw(runs: Replays, folder: Path) -> Sequence[Path]:
    """Writes allocation.png, gpus.png, waits.png and revenue.png, and gives their paths. Raises Invalid if they can't be written."""
    drawings: dict[str, Callable[[Replays], Figure]] = {
        "allocation.png": charts.allocation,
        "gpus.png": charts.gpus,
        "waits.png": charts.waits,
        "revenue.png": charts.revenue,
    }
    for name, drawing in drawings.items():
        try:
            drawing(runs).savefig(folder / name, dpi=110)
        except OSError as error:
            raise Invalid(f"{folder / name} can't be written: {error.strerror}.", "--plot", "Name another folder.", str(folder)) from error
    return [folder / name for name in drawings]
