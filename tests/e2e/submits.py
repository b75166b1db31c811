"""Submits as they go over the wire, for what the SDK would never send."""

from __future__ import annotations

import base64
import platform
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

NO_ARGUMENTS = cloudpickle.dumps(((), {}))


def inline(data: bytes) -> dict[str, str]:
    return {"inline": base64.b64encode(data).decode()}


def body(
    function: bytes | Callable[..., Any] = lambda: None, args: bytes | dict[str, Any] = NO_ARGUMENTS, **changes: Any
) -> dict[str, Any]:
    """The JSON of a submit. function: pickled already, or to be pickled as of a script. changes: fields put in its place."""
    if isinstance(function, bytes):
        pickled = function
    else:
        function.__module__ = "__main__"
        pickled = cloudpickle.dumps(function)
    said: dict[str, Any] = {
        "function": inline(pickled),
        "args": args if isinstance(args, dict) else inline(args),
        "name": "test",
        "vram": "1GB",
        "client": {"python": platform.python_version(), "cloudpickle": cloudpickle.__version__},
    }
    return said | changes
