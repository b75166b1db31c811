"""What a function's end looks like on the wire: a pickled value, or an exception as a dict of plain bytes and text."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType

import cloudpickle  # type: ignore[import-untyped]  # it has no types

from gridweave_agent import frames

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TEXT_LIMIT = 1 << 20


class TooLarge(ValueError):
    """The pickled result is larger than what is kept."""


class Outbox:
    """Sends one outcome through the descriptor; a value is pickled straight into it, never held twice."""

    def __init__(self, fd: int, cap: int, name: str) -> None:
        self._fd, self._cap, self._name = fd, cap, name
        self._sent = 0

    def write(self, data: bytes | memoryview) -> int:
        """For the pickler. Raises TooLarge."""
        size = memoryview(data).nbytes
        self._sent += size
        if self._sent > self._cap:
            raise TooLarge(
                f"the result of {self._name!r} is larger than {self._cap} bytes when pickled; "
                "write it to a store of yours and return where it is"
            )
        frames.write_frame(self._fd, frames.DATA, memoryview(data).cast("B"))
        return size

    def send_value(self, value: object) -> None:
        """Raises TooLarge, or TypeError naming the type that can't be pickled; then nothing was sent."""
        try:
            cloudpickle.Pickler(self, protocol=5).dump(value)
        except TooLarge:
            self._drop()
            raise
        except Exception as error:
            self._drop()
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise TypeError(f"the result of {self._name!r} can't be sent back: its type {kind} can't be pickled ({error})") from error
        frames.write_frame(self._fd, frames.VALUE)

    def send_exception(self, payload: bytes, note: bytes) -> None:
        frames.write_frame(self._fd, frames.NOTE, note)
        frames.write_frame(self._fd, frames.DATA, payload)
        frames.write_frame(self._fd, frames.EXCEPTION)

    def _drop(self) -> None:
        self._sent = 0
        frames.write_frame(self._fd, frames.DROP)


def describe(error: BaseException) -> tuple[bytes, bytes]:
    """The exception as a result blob, and the same in short as JSON for the supervisor, which unpickles nothing."""
    import json

    strip(error)
    text = _formatted(error, chain=True)
    chain = [_entry(each, _formatted(each, chain=False)) | {"link": link} for each, link in _chain(error)]
    blob = pickle.dumps({"gridweave": 1, **_entry(error, text), "chain": chain}, protocol=4)
    note = {"type": type(error).__qualname__, "message": _message(error)[:8192], "traceback": text[-65_536:]}
    return blob, json.dumps(note).encode()


def strip(error: BaseException) -> None:
    """Take the frames of ours off the exception and off those chained to it."""
    for each in (error, *(linked for linked, _ in _chain(error))):
        each.__traceback__ = _users(each.__traceback__)


def print_traceback(error: BaseException) -> None:
    """On stderr, as the interpreter does at a script's end; stderr may be closed."""
    strip(error)
    with suppress(Exception):
        sys.stderr.write(_formatted(error, chain=True))
        sys.stderr.flush()


def _users(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _formatted(error: BaseException, *, chain: bool) -> str:
    try:
        text = "".join(traceback.format_exception(error, chain=chain))
    except Exception as broken:  # a user's __str__ or __repr__ may raise
        text = f"{type(error).__qualname__}: (its traceback can't be shown: {type(broken).__qualname__})\n"
    return text if len(text) <= _TEXT_LIMIT else "…" + text[-_TEXT_LIMIT:]


def _entry(error: BaseException, text: str) -> dict[str, object]:
    return {
        "exception": _pickled(error),
        "type": type(error).__qualname__,
        "module": type(error).__module__,
        "message": _message(error),
        "traceback": text,
    }


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_TEXT_LIMIT]
    except Exception:
        return ""


def _pickled(error: BaseException) -> bytes | None:
    try:
        return bytes(cloudpickle.dumps(error))
    except Exception:
        return None  # its type, message and traceback must do


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The exceptions behind `error`, nearest first, each with how it is linked to the one before."""
    seen = {id(error)}
    while True:
        if error.__cause__ is not None:
            error, link = error.__cause__, "cause"
        elif error.__context__ is not None and not error.__suppress_context__:
            error, link = error.__context__, "context"
        else:
            return
        if id(error) in seen:
            return
        seen.add(id(error))
        yield error, link
