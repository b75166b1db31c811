"""Calls of a port that travel: arguments, results and errors as JSON, by the method's own annotations.

Both ends know the same Protocol or class; what one packs, the other unpacks to equal values. The schema version of a
stored object always goes along, since the other end may be of another release.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Protocol

import attrs
from cattrs.gen import make_dict_unstructure_fn

from ports import errors, wire
from ports.endpoints import Endpoint
from ports.errors import GridweaveError, Invalid, Unavailable
from ports.units import Mib
from ports.workloads import Job

Form = dict[str, Any]
Method = Callable[..., Any]

converter = wire.make_converter()
for _kind in (Job, Endpoint):
    converter.register_unstructure_hook(_kind, make_dict_unstructure_fn(_kind, converter, _cattrs_omit_if_default=False))
converter.register_structure_hook_func(
    lambda kind: kind == Mib | str, lambda value, _: value if isinstance(value, str | Mib) else converter.structure(value, Mib)
)


class ControlFacts(Protocol):
    """What a control service says of itself."""

    def namespace(self) -> str:
        """Of its objects."""
        ...


def pack(method: Method, *args: Any, **named: Any) -> Form:
    """Arguments of a call, without `self`. Raises TypeError as the call itself would."""
    bound = _signature(method).bind(*args, **named)
    return {name: converter.unstructure(value) for name, value in bound.arguments.items()}


def unpack(method: Method, form: object) -> Form:
    """What was packed. Raises Invalid, naming the argument that is wrong."""
    signature, hints = _signature(method), typing.get_type_hints(method)
    if not isinstance(form, dict):
        raise Invalid("Arguments are wanted as a JSON object.", "", 'Give {"name": value, …}.', str(form))
    found: Form = {}
    for name, value in form.items():
        if name not in signature.parameters:
            raise Invalid(f"There is no argument {name!r:.60}.", name, f"Give some of {', '.join(signature.parameters)}.", name)
        try:
            found[name] = converter.structure(value, hints[name])
        except GridweaveError:
            raise
        except Exception as error:  # whatever cattrs raises
            raise Invalid(f"{name} can't be read: {type(error).__name__}.", name, "Give what the library sends.", str(value)) from error
    missing = [each.name for each in signature.parameters.values() if each.default is each.empty and each.name not in found]
    if missing:
        raise Invalid(f"{', '.join(missing)} is missing.", missing[0], "Give every argument that has no default.")
    return found


def give(value: Any) -> Any:
    """A result."""
    return converter.unstructure(value)


def take(method: Method, form: Any, who: str = "the control service") -> Any:
    """What was given. who: gave it. Raises Unavailable if the other end is of another mind."""
    kind = typing.get_type_hints(method)["return"]
    if kind is type(None):
        return None
    try:
        return converter.structure(form, kind)
    except Exception as error:  # whatever cattrs raises
        raise Unavailable(who, f"its answer can't be read: {type(error).__name__}") from error


def give_error(error: GridweaveError) -> Form:
    facts = attrs.asdict(error) if attrs.has(type(error)) else {}  # type: ignore[arg-type]
    return {"error": type(error).__name__, "facts": facts}


def take_error(form: object, who: str = "the control service") -> GridweaveError:
    """The error that was given; Unavailable if it is none."""
    try:
        assert isinstance(form, dict)  # noqa: S101 - turned into an answer below
        kind = getattr(errors, form["error"])
        made = kind(**form["facts"])
        assert isinstance(made, GridweaveError)  # noqa: S101 - likewise
    except Exception:
        return Unavailable(who, "its answer can't be read")
    return made


def _signature(method: Method) -> inspect.Signature:
    whole = inspect.signature(method)
    return whole.replace(parameters=[each for each in whole.parameters.values() if each.name != "self"])
