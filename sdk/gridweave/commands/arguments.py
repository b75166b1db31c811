"""What the words of a command mean: arguments for a function, and pairs such as KEY=VALUE."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from gridweave.errors import Refused

_NAMED = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)


def literal(text: str) -> Any:
    """What an argument means: a Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def arguments(function: Callable[..., Any], words: Iterable[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional arguments, then name=value for names that the function takes. Raises Refused if it cannot be called so."""
    names, any_name = _parameters(function)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for word in words:
        found = _NAMED.fullmatch(word)
        if found and (found[1] in names or any_name):
            kwargs[found[1]] = literal(found[2])
        elif kwargs:
            raise _refuse(f"{word!r} comes after {next(reversed(kwargs))}=…", word, "Give positional arguments first.")
        else:
            args.append(literal(word))
    return tuple(args), kwargs


def _parameters(function: Callable[..., Any]) -> tuple[set[str], bool]:
    """The names that may be given, and whether any other may."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return set(), False
    named = {each.name for each in found if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return named, any(each.kind is each.VAR_KEYWORD for each in found)


def pairs(option: str, words: Iterable[str] | None) -> dict[str, str]:
    """KEY=VALUE, each. Raises Refused for what is none."""
    found: dict[str, str] = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise _refuse(f"{option} {word!r} is not KEY=VALUE", word, f"Write it as {option} KEY=VALUE.")
        found[key] = value
    return found


def _refuse(message: str, value: str, remedy: str) -> Refused:
    return Refused(f"{message}.", kind="usage", field="arguments", value=value, remedy=remedy)
