"""The ways to run a decorated function on the cluster: `.remote`, `.spawn`, `.map`, `.starmap`, and `.estimate` before it.

Each is called, or its `.aio` awaited. This file travels to the nodes and needs the standard library only: what talks to the
gateway is imported by the call; on a node, where it is not installed, the call says so. Nor does a call start anything while
the command line imports the file that holds it: the node imports that file too.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from gridweave.decorated import Decorated, P, R
from gridweave.errors import Refused
from gridweave.signatures import check_call

if TYPE_CHECKING:
    from gridweave.client import Client
    from gridweave.estimates import Estimate
    from gridweave.jobs import Job

AT_IMPORT = "at-import"  # the kind of what `importing` refuses
_imported: list[str] = []  # names of files
Q = ParamSpec("Q")
T = TypeVar("T")


@contextlib.contextmanager
def importing(file: str) -> Iterator[None]:
    """Meanwhile whatever would start a job raises Refused of the kind AT_IMPORT: that file is only looked into."""
    _imported.append(file)
    try:
        yield
    finally:
        _imported.remove(file)


class Way(Generic[P, R]):
    """One way of running a function. name: of its attribute."""

    name = ""

    def __init__(self, function: Decorated[P, R]) -> None:
        self._function = function


def _checked(method: Callable[Q, T]) -> Callable[Q, T]:
    """Arguments that it does not take are refused in the words of whoever wrote `f.map(…)`: he has never met our classes."""
    _, *parameters = inspect.signature(method).parameters.values()
    signature = inspect.Signature(parameters)

    @functools.wraps(method)
    def checked(*args: Q.args, **kwargs: Q.kwargs) -> T:
        way: Any = args[0]
        called = f"{way._function.__name__}.{way.name}{'' if method.__name__ == '__call__' else '.aio'}"
        check_call(called, signature, args[1:], kwargs)
        return method(*args, **kwargs)

    return checked


class Remote(Way[P, R]):
    """`function.remote`: call it, or await its `.aio`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ctrl-C cancels the job. Raises the function's own exception, JobFailed, Cancelled, Refused or Unavailable."""
        client = _client(".remote")
        from gridweave.calls import call

        value: R = call(client, self._function, args, kwargs)
        return value

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same without blocking the event loop. Cancelling the task cancels the job."""
        client = _client(".remote")
        from gridweave.coroutines import call_async

        value: R = await call_async(client, self._function, args, kwargs)
        return value


class Spawn(Way[P, R]):
    """`function.spawn`: call it, or await its `.aio`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Raises Refused or Unavailable."""
        client = _client(".spawn")
        from gridweave.calls import spawn

        return spawn(client, self._function, args, kwargs)

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """The same without blocking the event loop."""
        client = _client(".spawn")
        from gridweave.coroutines import spawn_async

        return await spawn_async(client, self._function, args, kwargs)


class Map(Way[P, R]):
    """`function.map`: loop over it, or over its `.aio` by `async for`.

    Results come in order, each as soon as it and those before it are there. The first job that fails raises at its place,
    unless return_exceptions is true: then its exception is its result. Leaving the loop early, or Ctrl-C, cancels what is
    left. concurrency: jobs in flight at once; fewer where credits are too short for as many holds. `itertools.repeat(7)` as one
    of the iterables gives each call the same. Raises WrongArguments.
    """

    name = "map"

    @_checked
    def __call__(
        self, iterable: Iterable[Any], *more: Iterable[Any], concurrency: int = 32, return_exceptions: bool = False
    ) -> Iterator[R]:
        """Once for each item, or for the items of several iterables as zip gives them."""
        return StarMap(self._function)(_Zipped(iterable, *more), concurrency=concurrency, return_exceptions=return_exceptions)

    @_checked
    def aio(
        self, iterable: Iterable[Any], *more: Iterable[Any], concurrency: int = 32, return_exceptions: bool = False
    ) -> AsyncIterator[R]:
        """The same without blocking the event loop."""
        return StarMap(self._function).aio(_Zipped(iterable, *more), concurrency=concurrency, return_exceptions=return_exceptions)


class StarMap(Way[P, R]):
    """`function.starmap`: as map, of an iterable of tuples that are each the arguments of one call."""

    name = "starmap"

    @_checked
    def __call__(self, tuples: Iterable[Iterable[Any]], *, concurrency: int = 32, return_exceptions: bool = False) -> Iterator[R]:
        client = _client(".map")
        from gridweave.maps import run_map

        return run_map(client, self._function, tuples, concurrency, return_exceptions)

    @_checked
    def aio(self, tuples: Iterable[Iterable[Any]], *, concurrency: int = 32, return_exceptions: bool = False) -> AsyncIterator[R]:
        """The same without blocking the event loop."""
        client = _client(".map")
        from gridweave.maps import run_map_async

        return run_map_async(client, self._function, tuples, concurrency, return_exceptions)


class Estimating(Way[P, R]):
    """`function.estimate`: call it, or await its `.aio`."""

    name = "estimate"

    @_checked
    def __call__(self) -> Estimate:
        """Raises Refused or Unavailable."""
        return _client(".estimate", starts=False).estimate(self._function.options)

    @_checked
    async def aio(self) -> Estimate:
        """The same without blocking the event loop."""
        client = _client(".estimate", starts=False)
        from gridweave.waiting import outcome, start

        return await outcome(start(lambda: client.estimate(self._function.options)))


class _Zipped:
    """zip, with a length where there is one: a progress line wants to say how many there will be."""

    def __init__(self, *iterables: Iterable[Any]) -> None:
        self._iterables = iterables

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self._iterables, strict=False)

    def __len__(self) -> int:
        return min(len(each) for each in self._iterables)  # type: ignore[arg-type]  # a TypeError says that there is none


def _client(what: str, starts: bool = True) -> Client:
    if starts and _imported:
        words = f"{_imported[-1]} calls {what} while it is imported, which the nodes do too"
        raise Refused(words, kind=AT_IMPORT, field="target", value=what, remedy="Put it under `if __name__ == '__main__':`.")
    try:
        from gridweave.defaults import current
    except ImportError as error:
        words = f"{what} needs the whole gridweave package, which is not installed here; a job can't start jobs"
        remedy = (
            "Inside a job call the function itself: it runs there. What a module does when it is imported there belongs under "
            "`if __name__ == '__main__':`. Elsewhere install it, from a checkout: pip install ./sdk"
        )
        raise Refused(words, remedy=remedy) from (None if (error.name or "").startswith("gridweave") else error)
    return current()
