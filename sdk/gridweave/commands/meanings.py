"""What the text of an argument means to the function that gets it.

A Python literal, else the text itself. Where the function says more, by the annotation bool, int or float of a parameter (also with
`| None`), text that is no such thing is refused before anything is sent: 'false' as text would be true.
"""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from gridweave.decorated import Decorated
from gridweave.errors import Refused
from gridweave.signatures import signature_of

_NAMES: tuple[tuple[Any, str], ...] = ((bool, "bool"), (int, "int"), (float, "float"), (type(None), "None"), (None, "None"))
_TRUTHS = {"true": True, "false": False}
_REMEDIES = {"bool": "Write true or false.", "int": "Give a whole number, such as 7.", "float": "Give a number, such as 0.1."}


def literal(text: str) -> Any:
    """A Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def meant(function: Callable[..., Any], args: Sequence[str], kwargs: Mapping[str, str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values of a call. Raises Refused for text that a parameter's annotation rules out."""
    parameters = _parameters(function)
    by_position = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_name = {each.name: each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    rest = {each.kind: each for each in parameters}
    more, others = rest.get(inspect.Parameter.VAR_POSITIONAL), rest.get(inspect.Parameter.VAR_KEYWORD)
    name = function.__name__
    positional = (by_position[index] if index < len(by_position) else more for index in range(len(args)))
    values = tuple(_value(name, each, text) for each, text in zip(positional, args, strict=True))
    return values, {key: _value(name, by_name.get(key, others), text) for key, text in kwargs.items()}


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """As the call will meet them; none if that can't be told."""
    called = function.__wrapped__ if isinstance(function, Decorated) else function
    plain = signature_of(called)
    if plain is None:
        return []
    try:
        return list(inspect.signature(called, follow_wrapped=False, eval_str=True).parameters.values())
    except Exception:  # of an annotation that only a type checker can read
        return list(plain.parameters.values())


def _value(function: str, parameter: inspect.Parameter | None, text: str) -> Any:
    value = literal(text)
    kinds = _kinds(parameter.annotation) if parameter is not None else set()
    kind = next(iter(kinds - {"None"}), "")
    if parameter is None or not kind or len(kinds - {"None"}) > 1:
        return value
    if value is None and ("None" in kinds or parameter.default is None):
        return value
    found = _of_kind(kind, value, text)
    if found is None:
        words = f"{function}() takes {parameter.name} as {kind}, and {text!r:.80} is none"
        raise Refused(words, kind="usage", field="arguments", value=text, remedy=_REMEDIES[kind])
    return found


def _kinds(annotation: Any) -> set[str]:
    """The names of the types that it allows; empty if there is one among them that is not ours to judge."""
    if isinstance(annotation, str):
        names = {each.strip() for each in annotation.split("|")}
    else:
        union = get_origin(annotation) in (Union, types.UnionType)
        members = get_args(annotation) if union else (annotation,)
        names = {next((name for kind, name in _NAMES if kind is each), "") for each in members}
    return names if names <= {name for _, name in _NAMES} else set()


def _of_kind(kind: str, value: Any, text: str) -> bool | int | float | None:
    if kind == "bool":
        return _TRUTHS.get(text.strip().lower())
    if type(value) is int or (kind == "float" and type(value) is float):
        return value
    try:  # what Python's own literals leave out: 07, inf
        return int(text) if kind == "int" else float(text)
    except ValueError:
        return None
