"""Which words of a command are arguments of a function, and of which parameter; and pairs such as KEY=VALUE."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from cyclopts import UnknownOptionError

from gridweave.commands.meanings import meant
from gridweave.errors import Refused

_CLOSE = 0.85  # of a mistyped option to the one that was meant; 0.8 would take --lr for --url
_NAMED = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)


def arguments(function: Callable[..., Any], words: Iterable[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional arguments, then name=value for names that the function takes. Raises Refused if it cannot be called so.

    A name that it does not take is one that was mistyped if it is much like one that it does take, comes among the named ones, or the
    call would fail; else the word is text with an = in it.
    """
    names, any_name = _parameters(function)
    args: list[str] = []
    kwargs: dict[str, str] = {}
    unknown: list[re.Match[str]] = []
    for word in words:
        found = _NAMED.fullmatch(word)
        if found and (found[1] in names or any_name):
            if found[1] in kwargs:
                raise _twice(found[1], kwargs[found[1]], found[2])
            kwargs[found[1]] = found[2]
        elif found and names and (kwargs or get_close_matches(found[1], names)):
            raise _unknown(function, names, found)
        elif kwargs:
            raise _refuse(f"{word!r} comes after {next(reversed(kwargs))}=…", word, "Give positional arguments first.")
        else:
            unknown += [found] if found else []
            args.append(word)
    if unknown and names and not _takes(function, args, kwargs):
        raise _unknown(function, names, unknown[0])
    return meant(function, args, kwargs)


def _takes(function: Callable[..., Any], args: list[str], kwargs: dict[str, str]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _twice(name: str, first: str, second: str) -> Refused:
    return _refuse(f"{name} is given twice: {first} and {second}", f"{name}={second}", "Give it once.")


def _unknown(function: Callable[..., Any], names: list[str], found: re.Match[str]) -> Refused:
    name, value = found.groups()
    near = get_close_matches(name, names, n=1)
    meant = f"Did you mean {near[0]}={value}? " if near else ""
    message = f"{function.__name__}() has no argument {name!r}; it takes {', '.join(names)}"
    return _refuse(message, found[0], f"{meant}Text that has an = in it is written as a string of Python: \"'{found[0]}'\".")


def _parameters(function: Callable[..., Any]) -> tuple[list[str], bool]:
    """The names that may be given, in their order, and whether any other may."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], False
    named = [each.name for each in found if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return named, any(each.kind is each.VAR_KEYWORD for each in found)


def dashed(error: UnknownOptionError, words: Sequence[str]) -> Refused:
    """For what begins with a dash and is no option of submit: it may have been meant for the function."""
    option, equals, value = (error.token.keyword or error.token.value).partition("=")
    name = option.lstrip("-")
    options = [each.lstrip("-") for argument in error.argument_collection for each in argument.names if each.startswith("--")]
    near = get_close_matches(name, options, n=1, cutoff=_CLOSE)
    meant_by_it = f" Did you mean --{near[0]}?" if near else ""
    after = [*words, ""][words.index(option) + 1] if option in words else ""
    shown = f"{name.replace('-', '_')}={value if equals else after if after and not after.startswith('-') else 'VALUE'}"
    remedy = f"An argument of the function is written without dashes: {shown}. See gridweave submit --help."
    return Refused(f"Unknown option: {option}.{meant_by_it}", kind="usage", field="arguments", value=option, remedy=remedy)


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
