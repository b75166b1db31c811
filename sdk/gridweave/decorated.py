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


def refuse_method(frame: types.FrameType, given: Any) -> None:
    """Raise TypeError if what is decorated in this frame becomes a method, or is one. Below `@staticmethod` it is none.

    A class body stores it under a name as it is; above another decorator of methods is known by the name that is loaded for it.
    """
    if isinstance(given, (staticmethod, classmethod, property)):
        raise _descriptor_refused(given)
    body = frame.f_locals
    if body is frame.f_globals or "__qualname__" not in body:
        return
    loaded, stored = _around(frame)
    name = getattr(given, "__qualname__", stored).rpartition("<locals>.")[2]
    if stored:
        raise method_refused(f"{body['__qualname__'].rpartition('.')[2]}.{stored}")
    if "classmethod" in loaded:
        raise _class_method_refused(name)
    if loaded & {"property", "cached_property"}:
        raise method_refused(name, "a property")


def _around(frame: types.FrameType) -> tuple[set[str], str]:
    """The names loaded for the statement that a class body is at, and the name under which it stores what is being called, if it does
    that next."""
    import dis

    loaded: set[str] = set()
    for each in dis.get_instructions(frame.f_code):
        if each.offset > frame.f_lasti:
            return loaded, str(each.argval) if each.opname == "STORE_NAME" else ""
        if each.opname.startswith("STORE_"):
            loaded.clear()
        elif each.opname.startswith("LOAD_") and each.opname != "LOAD_CONST":
            loaded.add(str(each.argval))
    return loaded, ""


def method_refused(name: str, what: str = "a method") -> TypeError:
    return TypeError(f"{name} is {what}: decorate a plain function that takes the object as an argument")


def _descriptor_refused(given: Any) -> TypeError:
    function = given.fget if isinstance(given, property) else given.__func__
    name = getattr(function, "__qualname__", repr(function)).rpartition("<locals>.")[2]
    if isinstance(given, staticmethod):
        return TypeError(f"{name} is a static method already: put @staticmethod above @gw.function, not below it")
    return method_refused(name, "a property") if isinstance(given, property) else _class_method_refused(name)


def _class_method_refused(name: str) -> TypeError:
    way = "decorate a plain function that takes the class as an argument, or put @staticmethod above @gw.function instead"
    return TypeError(f"{name} is a class method: {way}")


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
