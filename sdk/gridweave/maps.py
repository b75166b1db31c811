"""Many calls of one function at once, their results in order.

Items are taken, and packed, by whoever loops over the results, and not much further ahead than he is: endless iterables are
welcome. On a terminal a line tells how far it is, while he waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import Future
from typing import Any

from gridweave.client import Client
from gridweave.coroutines import settled
from gridweave.crews import Crew
from gridweave.decorated import Decorated
from gridweave.errors import Refused
from gridweave.lines import Line
from gridweave.parcels import Parcel
from gridweave.waiting import outcome, start

_AHEAD = 4  # calls packed or done but not yet taken, per call in flight


def run_map(
    client: Client, function: Decorated[..., Any], tuples: Iterable[Iterable[Any]], concurrency: int, return_exceptions: bool
) -> Iterator[Any]:
    """See ways.Map. Raises Refused for a bad concurrency at once, not at the first item."""
    _check(concurrency)
    return _results(client, function, tuples, concurrency, return_exceptions)


def run_map_async(
    client: Client, function: Decorated[..., Any], tuples: Iterable[Iterable[Any]], concurrency: int, return_exceptions: bool
) -> AsyncIterator[Any]:
    """run_map for `async for`."""
    _check(concurrency)
    return _results_async(client, function, tuples, concurrency, return_exceptions)


def _check(concurrency: int) -> None:
    if concurrency < 1:
        raise Refused(f"concurrency is {concurrency}", field="concurrency", value=str(concurrency), remedy="Give 1 or more.")


def _results(
    client: Client, function: Decorated[..., Any], tuples: Iterable[Iterable[Any]], concurrency: int, return_exceptions: bool
) -> Iterator[Any]:
    with contextlib.closing(Parcel(function)) as parcel, Crew(client, concurrency) as crew:
        course = _Course(parcel, crew, tuples, concurrency * _AHEAD, return_exceptions)
        with contextlib.closing(Line(course.words)) as line:
            while (waiting := course.next()) is not None:
                if not waiting.done():
                    line.draw()
                try:
                    value = waiting.result()
                except Exception as error:
                    if not return_exceptions:
                        raise
                    value = error
                finally:
                    line.erase()  # the loop's body may print
                yield value


async def _results_async(
    client: Client, function: Decorated[..., Any], tuples: Iterable[Iterable[Any]], concurrency: int, return_exceptions: bool
) -> AsyncIterator[Any]:
    parcel = await outcome(start(lambda: Parcel(function)))
    crew = Crew(client, concurrency)
    try:
        course = _Course(parcel, crew, tuples, concurrency * _AHEAD, return_exceptions)
        while (waiting := course.next()) is not None:
            try:
                value = await asyncio.wrap_future(waiting)
            except Exception as error:
                if not return_exceptions:
                    raise
                value = error
            yield value
    finally:
        await settled(crew.leave)
        parcel.close()


class _Course:
    """The items on their way: those packed, in their order, and how many were taken."""

    def __init__(self, parcel: Parcel, crew: Crew, tuples: Iterable[Iterable[Any]], ahead: int, return_exceptions: bool) -> None:
        self._parcel, self._crew, self._ahead, self._forgiving = parcel, crew, ahead, return_exceptions
        self._total = _length(tuples)
        self._items = iter(tuples)
        self._waiting: deque[Future[Any]] = deque()
        self._more = True
        self._taken = 0

    def next(self) -> Future[Any] | None:
        """What the next result comes from, None at the end. Packs what there is room for, until that result is there."""
        while self._more and len(self._waiting) < self._ahead:
            item = next(self._items, None)
            self._more = item is not None
            if item is not None:
                self._waiting.append(self._started(tuple(item)))
            if self._waiting and self._waiting[0].done():
                break
        if not self._waiting:
            return None
        self._taken += 1
        return self._waiting.popleft()

    def _started(self, args: tuple[Any, ...]) -> Future[Any]:
        try:
            return self._crew.start(self._parcel.letter(args, {}))
        except Refused as error:
            if not self._forgiving:
                raise
            refused: Future[Any] = Future()
            refused.set_exception(error)
            return refused

    def words(self) -> str:
        """How far it is."""
        from rich.markup import escape

        done = self._taken - 1 + sum(each.done() for each in tuple(self._waiting))
        whole = f" of {self._total}" if self._total is not None else ""
        parts = [f"[bold]{escape(self._parcel.name)}[/bold]", f"{done}{whole} done", f"{self._crew.in_flight} in flight"]
        parts += ["as many as the credits suffice for"] if self._crew.short else []
        return " · ".join([*parts, self._crew.uploading] if self._crew.uploading else parts)


def _length(tuples: Iterable[Any]) -> int | None:
    try:
        return len(tuples)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None
