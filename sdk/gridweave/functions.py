"""The decorator, and what it makes of a function: still callable here, and runnable on the cluster.

This file needs the standard library only, because it travels with modules that use it. `.remote`, `.spawn`, `.map` and
`.estimate` import the rest when they are called; on a node, where the rest is not installed, they say so.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from gridweave.errors import Refused
from gridweave.options import Options

if TYPE_CHECKING:
    from gridweave.client import Client
    from gridweave.estimates import Estimate
    from gridweave.jobs import Job

P = ParamSpec("P")
R = TypeVar("R")


class Function(Generic[P, R]):
    """A decorated function. Calling it runs it here; `.remote(...)` runs it on the cluster."""

    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        functools.update_wrapper(self, function)
        self.options = options
        if inspect.iscoroutinefunction(function) and hasattr(inspect, "markcoroutinefunction"):
            inspect.markcoroutinefunction(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__wrapped__(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<gridweave function {self.__qualname__}, vram={self.options.vram!r}, gpus={self.options.gpus}>"

    def __set_name__(self, owner: type, name: str) -> None:
        raise TypeError(f"{owner.__name__}.{name} is a method: decorate a plain function that takes the object as an argument")

    def __reduce__(self) -> Any:
        """By reference where a module holds it; by value where only this process has it."""
        if importable(self):
            return self.__qualname__
        return _blank, (), (self.__wrapped__, self.options)

    def __setstate__(self, state: tuple[Callable[P, R], Options]) -> None:
        Function.__init__(self, *state)

    @property
    def remote(self) -> Remote[P, R]:
        """Run it on the cluster, follow its log here, and give its value or raise its exception."""
        return Remote(self)

    @property
    def spawn(self) -> Spawn[P, R]:
        """Start it on the cluster and give its Job at once."""
        return Spawn(self)

    def map(self, iterable: Iterable[Any], *more: Iterable[Any], concurrency: int = 32) -> Iterator[R]:
        """Run it once for each item (or for the items of several iterables, as zip gives them), many jobs at once.

        Results come in order, each as soon as it and those before it are there. The first job that fails raises at its
        place. Leaving the loop early, or Ctrl-C, cancels what is left. concurrency: jobs in flight at once.
        """
        _need_client(".map")
        from gridweave.maps import run_map

        return run_map(self, zip(iterable, *more, strict=False), concurrency)

    def estimate(self) -> Estimate:
        """What it would cost and whether it would be placed now. Nothing is started."""
        return _client(".estimate").estimate(self.options)

    def with_options(self, **changes: Any) -> Function[P, R]:
        """The same function asking for something else; takes the arguments of `gw.function`."""
        return Function(self.__wrapped__, self.options.changed(**changes))


class Remote(Generic[P, R]):
    """`function.remote`: call it, or await its `.aio`."""

    def __init__(self, function: Function[P, R]) -> None:
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ctrl-C cancels the job. Raises the function's own exception, JobFailed, Cancelled, Refused or Unavailable."""
        client = _client(".remote")
        from gridweave.calls import call

        value: R = call(client, self._function, args, kwargs)
        return value

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same without blocking the event loop. Cancelling the task cancels the job."""
        client = _client(".remote")
        from gridweave.calls import call_async

        value: R = await call_async(client, self._function, args, kwargs)
        return value


class Spawn(Generic[P, R]):
    """`function.spawn`: call it, or await its `.aio`."""

    def __init__(self, function: Function[P, R]) -> None:
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Raises Refused or Unavailable."""
        client = _client(".spawn")
        from gridweave.calls import spawn

        return spawn(client, self._function, args, kwargs)

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """The same without blocking the event loop."""
        client = _client(".spawn")
        from gridweave.calls import spawn_async

        return await spawn_async(client, self._function, args, kwargs)


def importable(function: Function[..., Any]) -> bool:
    """Whether another process finds this very object by its module and name."""
    module = function.__module__
    if module == "__main__" or module not in sys.modules or _sent_by_value(module):
        return False
    found: Any = sys.modules[module]
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function


def _sent_by_value(module: str) -> bool:
    """Whether cloudpickle was told to send that module's functions by value."""
    cloudpickle: Any = sys.modules.get("cloudpickle")
    return cloudpickle is not None and module in cloudpickle.list_registry_pickle_by_value()


def _blank() -> Function[..., Any]:
    return Function.__new__(Function)


def _need_client(what: str) -> None:
    try:
        import gridweave.client  # noqa: F401
    except ImportError as error:
        remedy = "Inside a job call the function itself: it runs there. Elsewhere: pip install gridweave."
        raise Refused(f"{what} needs the whole gridweave package, which is not installed here", remedy=remedy) from error


def _client(what: str) -> Client:
    _need_client(what)
    from gridweave.defaults import current

    return current()


@overload
def function(call: Callable[P, R], /) -> Function[P, R]: ...


@overload
def function(
    *,
    vram: str | float = ...,
    gpus: int = ...,
    gpu: str | None = ...,
    vendor: str | None = ...,
    env: Mapping[str, Any] | None = ...,
    max_hours: float | None = ...,
    name: str | None = ...,
    provider: str | None = ...,
    owner: str | None = ...,
    exclusive: bool = ...,
    labels: Mapping[str, str] | None = ...,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...


def function(call: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function runnable on the cluster; with arguments, as `@gw.function(vram="8GB")`, or bare (1 GB of one GPU).

    vram: per GPU, "8GB" or a number of GB. gpus: how many, on one node. gpu: the model, "A100-80GB". vendor: "nvidia", "amd".
    env: {"pip": [requirements], "env_vars": {name: value}, "working_dir": folder}. max_hours: end it after that.
    provider: only that provider's hardware; owner: "org", "provider", "provider:<id>", "self_host". exclusive: whole idle
    GPUs. name, labels: to find it again. Raises Refused for values that no gateway would take.
    """
    settled = Options(**{key: value for key, value in options.items() if value is not None})
    if call is None:
        return lambda given: function_of(given, settled)
    return function_of(call, settled)


def function_of(call: Callable[P, R], options: Options) -> Function[P, R]:
    """The decorated function with those options. Raises TypeError for what is no function."""
    if isinstance(call, Function):
        return Function(call.__wrapped__, options)
    if isinstance(call, type) or not callable(call):
        raise TypeError(f"gw.function decorates functions, not {call!r}")
    if not hasattr(call, "__qualname__"):
        raise TypeError(f"gw.function needs a function with a name, not {call!r}: wrap it in a def")
    return Function(call, options)


def run(call: Callable[..., R], *args: Any, **options: Any) -> R:
    """Run a function once with these positional arguments; the keywords are those of `gw.function`."""
    decorated: Function[..., R] = function_of(call, Options(**options))
    return decorated.remote(*args)
