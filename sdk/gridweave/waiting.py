"""Blocking work for asyncio: each piece in a thread of its own, so that any number may wait at once.

`TwoWay` makes of a method one that can also be awaited, as `job.result.aio(...)`; `TwoWayIterator` of one that gives pieces,
`async for piece in job.logs.aio(...)`. A cancelled task stops waiting; what it waited for goes on in its thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from gridweave.errors import RemoteError

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
_END: Any = object()


def start(work: Callable[[], T]) -> concurrent.futures.Future[T]:
    """Run work in a thread."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(work())
        except StopIteration as error:  # a future refuses to hold one
            future.set_exception(RemoteError(f"StopIteration: {error}", type="StopIteration"))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="gridweave", daemon=True).start()
    return future


async def outcome(work: concurrent.futures.Future[T]) -> T:
    """What work gives. A cancelled task leaves it running, and asks no more what came of it."""
    wrapped = asyncio.wrap_future(work)
    wrapped.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
    return await asyncio.shield(wrapped)


class TwoWay(Generic[S, P, T]):
    """Decorates a method: `obj.method(...)` blocks, `await obj.method.aio(...)` does not block the event loop."""

    def __init__(self, method: Callable[Concatenate[S, P], T]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, obj: None, owner: type) -> TwoWay[S, P, T]: ...

    @overload
    def __get__(self, obj: S, owner: type) -> Bound[P, T]: ...

    def __get__(self, obj: S | None, owner: type) -> TwoWay[S, P, T] | Bound[P, T]:
        return self if obj is None else Bound(functools.partial(self._method, obj), self._method)


class Bound(Generic[P, T]):
    """A method of one object, to be called or awaited."""

    def __init__(self, call: Callable[P, T], method: Callable[..., Any]) -> None:
        functools.update_wrapper(self, method)
        self._call = call

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(*args, **kwargs)

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """The same, to be awaited."""
        return outcome(start(lambda: self._call(*args, **kwargs)))


class TwoWayIterator(Generic[S, P, T]):
    """Decorates a method that gives an iterator; its `.aio` gives an asynchronous one."""

    def __init__(self, method: Callable[Concatenate[S, P], Iterator[T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, obj: None, owner: type) -> TwoWayIterator[S, P, T]: ...

    @overload
    def __get__(self, obj: S, owner: type) -> BoundIterator[P, T]: ...

    def __get__(self, obj: S | None, owner: type) -> TwoWayIterator[S, P, T] | BoundIterator[P, T]:
        return self if obj is None else BoundIterator(functools.partial(self._method, obj), self._method)


class BoundIterator(Generic[P, T]):
    """A method of one object that gives pieces."""

    def __init__(self, call: Callable[P, Iterator[T]], method: Callable[..., Any]) -> None:
        functools.update_wrapper(self, method)
        self._call = call

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._call(*args, **kwargs)

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """The same for `async for`."""
        pieces = self._call(*args, **kwargs)
        while (piece := await outcome(start(lambda: next(pieces, _END)))) is not _END:
            yield piece
