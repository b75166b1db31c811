"""A class' methods as plain functions of a module: same name, same signature less `self`, same docstring."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


def bound(method: Callable[Concatenate[S, P], T], of: Callable[[], S], module: str) -> Callable[P, T]:
    """of: gives the object at each call. module: that the function belongs to, for help() and tracebacks."""

    def call(*args: P.args, **named: P.kwargs) -> T:
        return method(of(), *args, **named)

    return plain(method, call, module)


def plain(method: Callable[Concatenate[S, P], T], call: Callable[P, T], module: str) -> Callable[P, T]:
    """call: what is done."""

    @functools.wraps(method)
    def function(*args: P.args, **named: P.kwargs) -> T:
        return call(*args, **named)

    whole = inspect.signature(method)
    function.__signature__ = whole.replace(parameters=list(whole.parameters.values())[1:])  # type: ignore[attr-defined]
    function.__module__, function.__qualname__ = module, method.__name__
    return function
