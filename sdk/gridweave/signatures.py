"""Whether a function takes the arguments of a call: asked here, before a GPU is paid for to find out that it does not.

Standard library only: it travels with modules that use decorated functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gridweave.errors import WrongArguments

_LONGEST = 300  # characters of a signature that is shown


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """As the call will meet it; None if that can't be told.

    A wrapper's own counts, not that of what it wraps, to which it may give other arguments. One that somebody has set by hand
    may be made for readers only.
    """
    if getattr(function, "__signature__", None) is not None:
        return None
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (ValueError, TypeError, AttributeError):
        return None


def check_call(name: str, signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raises WrongArguments."""
    if signature is None:
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise WrongArguments(f"{name}() {error}", field="arguments", remedy=_remedy(name, signature)) from None


def _remedy(name: str, signature: inspect.Signature) -> str:
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    try:
        shown = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    except Exception:  # of a default's own repr
        return "Nothing was sent."
    return f"It is {name}{shown if len(shown) <= _LONGEST else '(…)'}. Nothing was sent."
