"""A bar on stderr, with the time that is left, while somebody watches; nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Told = Callable[[str, float], None]


@contextmanager
def bar(total: float) -> Iterator[Told]:
    """Gives what is to be told the work done so far, of `total`, and what it is about."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("", total=total)

        def told(what: str, done: float) -> None:
            shown.update(task, description=what, completed=done)

        yield told
