"""Why something cannot travel to another machine: in words, with the name of the variable that holds it and the way out.

`unfit` judges one object. `explain` is asked after pickling failed: it walks from the function or the arguments down to the
culprit, trying each part by itself, and keeps the path.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import io
import queue
import socket
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

from gridweave.errors import Refused

_INSIDE = "Create it inside the function."
_KINDS: tuple[tuple[tuple[type, ...], str, str], ...] = (
    ((socket.socket,), "an open socket", "Connect inside the function."),
    (
        (
            type(threading.Lock()),
            type(threading.RLock()),
            threading.Condition,
            threading.Event,
            threading.Semaphore,
            threading.Barrier,
        ),
        "a lock of this process",
        _INSIDE,
    ),
    ((queue.Queue, queue.SimpleQueue), "a queue of this process", "Create it inside the function, or pass a list."),
    ((types.GeneratorType, types.AsyncGeneratorType), "a generator", "Pass list(...) of it, or create it inside the function."),
    ((types.CoroutineType,), "a coroutine", "Await it first, or pass the async function itself."),
    (
        (asyncio.AbstractEventLoop, asyncio.Future, concurrent.futures.Future),
        "tied to the running event loop or executor",
        "Pass its result, or create it inside the function.",
    ),
    ((threading.Thread, concurrent.futures.Executor), "a thread or pool of this process", _INSIDE),
    ((subprocess.Popen,), "a process on this machine", "Start it inside the function."),
    ((types.FrameType, types.TracebackType), "a frame of this process", "Pass text made of it, such as traceback.format_exc()."),
)
_BY_NAME: dict[tuple[str, str], tuple[str, str]] = {
    ("sqlite3", "Connection"): ("an open database connection", "Connect inside the function."),
    ("sqlite3", "Cursor"): ("an open database cursor", "Connect inside the function."),
    ("mmap", "mmap"): ("a memory map", "Pass bytes of it, or map the file inside the function."),
    ("gridweave.client", "Client"): ("a client of the gateway", "Create it where it is used."),
    ("gridweave.jobs", "Job"): ("a handle of a job", "Pass its .id, or its .result()."),
}
_DEPTH = 8


class CannotTravelError(Exception):
    """This object can be pickled, perhaps, but it would not work on another machine. words: what it is; remedy."""

    def __init__(self, obj: Any, words: tuple[str, str]) -> None:
        super().__init__(f"{type(obj).__name__} is {words[0]}")
        self.words = words


def unfit(obj: Any) -> tuple[str, str] | None:
    """What it is and the way out, if an object like this never works elsewhere; None if it may travel."""
    if isinstance(obj, type):
        return None
    if isinstance(obj, io.IOBase) and not isinstance(obj, (io.BytesIO, io.StringIO)) and obj not in (sys.stdout, sys.stderr):
        return "an open file", "Pass its path or its content, or open it inside the function."
    for kinds, words, remedy in _KINDS:
        if isinstance(obj, kinds):
            return words, remedy
    return _BY_NAME.get((type(obj).__module__, type(obj).__name__))


def explain(obj: Any, what: str, error: Exception, attempt: Callable[[Any], Exception | None]) -> Refused:
    """The refusal for something that failed to pickle. attempt: gives the exception of pickling a part, or None."""
    path, culprit, reason = _descend(obj, what, error, attempt)
    kind = type(culprit)
    if isinstance(reason, CannotTravelError):
        words, remedy = reason.words
        message = f"{path} is {words} ({kind.__module__}.{kind.__qualname__})"
    else:
        remedy = "Create it inside the function, or pass the plain data that it is made of."
        message = f"{path} ({kind.__module__}.{kind.__qualname__}) cannot be pickled: {_first_line(reason)}"
    return Refused(f"{message}, and cannot be sent." if isinstance(reason, CannotTravelError) else f"{message}.", field=what, remedy=remedy)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _descend(obj: Any, what: str, error: Exception, attempt: Callable[[Any], Exception | None]) -> tuple[str, Any, Exception]:
    path, seen = what, {id(obj)}
    for _ in range(_DEPTH):
        for name, part in _parts(obj):
            if id(part) in seen:
                continue
            seen.add(id(part))
            found = attempt(part)
            if found is not None:
                obj, error = part, found
                path = name if what == "arguments" and path == what else f"{path}: {name}"
                break
        else:
            break
        if isinstance(error, CannotTravelError) and unfit(obj) is not None:
            break
    return path, obj, error


def _parts(obj: Any) -> Iterator[tuple[str, Any]]:
    """The parts that pickling would visit, with the words for where each was found."""
    if isinstance(obj, tuple) and len(obj) == 2 and isinstance(obj[0], tuple) and isinstance(obj[1], dict):
        yield from ((f"argument {index + 1}", each) for index, each in enumerate(obj[0]))
        yield from ((f"argument {key}", each) for key, each in obj[1].items())
        return
    wrapped = getattr(obj, "__wrapped__", None)
    if isinstance(obj, types.FunctionType):
        yield from _parts_of_function(obj)
    elif isinstance(obj, types.MethodType):
        yield "its object", obj.__self__
        yield "its function", obj.__func__
    elif isinstance(wrapped, types.FunctionType):
        yield f"function {wrapped.__name__}", wrapped
    elif isinstance(obj, dict):
        yield from ((f"item {key!r}", each) for key, each in obj.items())
    elif isinstance(obj, (list, tuple, set, frozenset)):
        yield from ((f"item {index}", each) for index, each in enumerate(obj))
    elif isinstance(obj, type):
        yield from ((f"class attribute {name}", each) for name, each in vars(obj).items() if not name.startswith("__"))
    else:
        yield from ((f"attribute {name}", each) for name, each in getattr(obj, "__dict__", {}).items())
        yield "its class", type(obj)


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    captured = inspect.getclosurevars(function)
    yield from ((f"captured variable {name}", each) for name, each in captured.nonlocals.items())
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"global {name}", function.__globals__[name]
    yield from ((f"default of a parameter ({each!r})", each) for each in function.__defaults__ or ())
    yield from ((f"default of {name}", each) for name, each in (function.__kwdefaults__ or {}).items())
    yield from ((f"attribute {name}", each) for name, each in function.__dict__.items())


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names
