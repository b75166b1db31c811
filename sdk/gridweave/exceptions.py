"""Unpickles exceptions whose constructors do not take their own `args`.

`class Spilled(Exception): def __init__(self, amount, where): super().__init__(f"…")` is pickled as a call of Spilled with the
message alone: that fails, or makes another message of it. Class, args and attributes are all in the pickle, and are put back.
"""

from __future__ import annotations

import pickle
from typing import Any


class LenientUnpickler(pickle._Unpickler):
    """The unpickler that is written in Python, because one step of it is replaced: the call of what makes an object."""

    stack: list[Any]

    def load_reduce(self) -> None:
        """REDUCE: call what lies below the arguments on the stack."""
        args = self.stack.pop()
        self.stack[-1] = _made(self.stack[-1], args)

    dispatch = {**pickle._Unpickler.dispatch, pickle.REDUCE[0]: load_reduce}  # type: ignore[dict-item]  # noqa: RUF012 - as there


def _made(make: Any, args: Any) -> Any:
    if not (isinstance(make, type) and issubclass(make, BaseException)):
        return make(*args)
    try:
        error = make(*args)
    except Exception:
        error = make.__new__(make, *args)
        error.args = args
    if make.__reduce__ is BaseException.__reduce__:
        error.args = args  # which that one had pickled
    return error
