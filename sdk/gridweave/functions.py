"""The decorator, and what it makes of a function: still callable here, and runnable on the cluster.

This file needs the standard library only, because it travels with modules that use it. What runs it (ways.py) imports
the rest when it is called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, overload

from gridweave.decorated import Decorated, P, R, refuse_method
from gridweave.options import Options
from gridweave.ways import Estimating, Map, Remote, Spawn, StarMap


class Function(Decorated[P, R]):
    """A decorated function. Calling it runs it here; `.remote(...)` runs it on the cluster."""

    @property
    def remote(self) -> Remote[P, R]:
        """Run it on the cluster, follow its log here, and give its value or raise its exception."""
        return Remote(self)

    @property
    def spawn(self) -> Spawn[P, R]:
        """Start it on the cluster and give its Job at once."""
        return Spawn(self)

    @property
    def map(self) -> Map[P, R]:
        """Run it once for each item, many jobs at once."""
        return Map(self)

    @property
    def starmap(self) -> StarMap[P, R]:
        """Run it once for each tuple of arguments, many jobs at once."""
        return StarMap(self)

    @property
    def estimate(self) -> Estimating[P, R]:
        """What it would cost and whether it would be placed now. Nothing is started."""
        return Estimating(self)

    def with_options(self, **changes: Any) -> Function[P, R]:
        """The same function asking for something else; takes the arguments of `gw.function`."""
        return Function(self.__wrapped__, self.options.changed(**changes))


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
    max_cost: str | float | None = ...,
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
    max_cost: end it when it has cost so many credits. provider: only that provider's hardware; owner: "org", "provider",
    "provider:<id>", "self_host". exclusive: whole idle GPUs. name, labels: to find it again. Raises Refused for values that no
    gateway would take, TypeError for other names.
    """
    settled = Options.of(options)

    def decorate(given: Callable[..., Any]) -> Function[..., Any]:
        refuse_method(sys._getframe(1), given)
        return function_of(given, settled)

    if call is None:
        return decorate
    refuse_method(sys._getframe(1), call)
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
    decorated: Function[..., R] = function_of(call, Options.of(options))
    return decorated.remote(*args)
