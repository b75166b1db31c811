"""Pickles functions and arguments for the cluster, and notes which modules they will need there.

It is cloudpickle: what belongs to the script (`__main__`), a notebook or a local scope goes by value, what belongs to an
importable module goes by reference. The pickler sees every object on its way, so it can refuse what could be pickled but
never work on another machine, and it can list the modules that must travel along.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import IO, Any

import cloudpickle  # type: ignore[import-untyped]

from gridweave.captures import CannotTravelError, explain, unfit
from gridweave.decorated import Decorated, importable
from gridweave.errors import Refused
from gridweave.imports import imported_by
from gridweave.payloads import Payload, TooLargeError, too_large

PROTOCOL = 5


@dataclass
class Needs:
    """Names of the modules that pickled objects refer to, and of those that functions sent by value import."""

    modules: set[str] = field(default_factory=set)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """cloudpickle's pickler that refuses what cannot travel and fills `needs`."""

    def __init__(self, file: IO[bytes], needs: Needs) -> None:
        super().__init__(file, protocol=PROTOCOL)
        self._needs = needs

    def reducer_override(self, obj: Any) -> Any:
        refusal = unfit(obj)
        if refusal is not None:
            raise CannotTravelError(obj, refusal)
        if isinstance(obj, ModuleType):
            self._needs.modules.add(obj.__name__)
        elif isinstance(obj, (FunctionType, type, Decorated)):
            self._needs.modules.add(str(obj.__module__))
        if isinstance(obj, CodeType):
            return self._with_its_file(obj)
        if isinstance(obj, FunctionType):
            self._needs.modules.update(imported_by(obj.__code__, str(obj.__globals__.get("__package__") or "")))
            owner = decorated(obj)
            if owner is not None:
                return getattr, (owner, "__wrapped__")
        return super().reducer_override(obj)

    def _with_its_file(self, code: CodeType) -> Any:
        """cloudpickle takes the file's name out of code objects; a traceback from the node should show it."""
        make, parts, *rest = self.dispatch_table[CodeType](code)
        return make, tuple(code.co_filename if part == "<dynamic-code>" else part for part in parts), *rest


def decorated(function: FunctionType) -> Decorated[..., Any] | None:
    """The decorated object that stands at this function's place in an importable module, if there is one."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Decorated) and found.__wrapped__ is function and importable(found):
        return found
    return None


def pickle_function(function: Callable[..., Any], needs: Needs) -> Payload:
    """The function as a payload. Raises Refused naming the captured variable that cannot travel."""
    return _pickle(function, f"function {getattr(function, '__name__', 'function')}", needs)


def pickle_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], needs: Needs) -> Payload:
    """The arguments as a payload. Raises Refused naming the one that cannot travel."""
    return _pickle((args, kwargs), "arguments", needs)


def _pickle(obj: Any, what: str, needs: Needs) -> Payload:
    payload = Payload()
    try:
        Pickler(payload, needs).dump(obj)  # type: ignore[arg-type]
    except TooLargeError:
        payload.close()
        raise too_large(what) from None
    except Exception as error:
        payload.close()
        raise _refusal(obj, what, error) from error
    except BaseException:
        payload.close()
        raise
    return payload


def _refusal(obj: Any, what: str, error: Exception) -> Refused:
    def attempt(part: Any) -> Exception | None:
        try:
            Pickler(_Nowhere(), Needs()).dump(part)  # type: ignore[arg-type]
        except Exception as found:
            return found
        return None

    return explain(obj, what, error, attempt)


class _Nowhere:
    """A file that keeps nothing."""

    def write(self, data: Any) -> int:
        return memoryview(data).nbytes
