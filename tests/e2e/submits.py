"""Submits as they go over the wire, for what the SDK would never send."""

from __future__ import annotations

import base64
import platform
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

NO_ARGUMENTS = cloudpickle.dumps(((), {}))
Said = bytes | dict[str, Any]


def inline(data: bytes) -> dict[str, str]:
    return {"inline": base64.b64encode(data).decode()}


def body(function: Said | Callable[..., Any] = lambda: None, args: Said = NO_ARGUMENTS, **changes: Any) -> dict[str, Any]:
    """The JSON of a submit. function: pickled, as it is said, or to be pickled as of a script. changes: fields put in its place."""
    if callable(function):
        function.__module__ = "__main__"
        function = cloudpickle.dumps(function)
    said: dict[str, Any] = {
        "function": inline(function) if isinstance(function, bytes) else function,
        "args": inline(args) if isinstance(args, bytes) else args,
        "name": "test",
        "vram": "1GB",
        "client": {"python": platform.python_version(), "cloudpickle": cloudpickle.__version__},
    }
    return said | changes
