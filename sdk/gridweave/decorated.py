"""A function with its options: callable here as ever, and picklable by reference where a module holds it.

`Function` adds what runs it on the cluster; whatever packs functions needs no more than this. Standard library only.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from gridweave.options import Options

P = ParamSpec("P")
R = TypeVar("R")


class Decorated(Generic[P, R]):
    """What `gw.function` makes, as far as it concerns this process."""

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
        raise method_refused(f"{owner.__name__}.{name}")  # up to Python 3.11 inside a RuntimeError: refuse_method comes before

    def __reduce__(self) -> Any:
        """By reference where a module holds it; by value where only this process has it."""
        if importable(self):
            return self.__qualname__
        return _blank, (type(self),), (self.__wrapped__, self.options)

    def __setstate__(self, state: tuple[Callable[P, R], Options]) -> None:
        Decorated.__init__(self, *state)


def refuse_method(frame: types.FrameType) -> None:
    """Raise TypeError if what is decorated in this frame becomes a method: a class body stores it under a name as it is.

    Below another decorator (`@staticmethod`) it does not.
    """
    body = frame.f_locals
    if body is frame.f_globals or "__qualname__" not in body:
        return
    import dis

    after = (each for each in dis.get_instructions(frame.f_code) if each.offset > frame.f_lasti)
    stored = next(after, None)
    if stored is not None and stored.opname == "STORE_NAME":
        raise method_refused(f"{body['__qualname__'].rpartition('.')[2]}.{stored.argval}")


def method_refused(name: str) -> TypeError:
    return TypeError(f"{name} is a method: decorate a plain function that takes the object as an argument")


def importable(function: Decorated[..., Any]) -> bool:
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


def _blank(kind: type[Decorated[..., Any]]) -> Decorated[..., Any]:
    return kind.__new__(kind)
