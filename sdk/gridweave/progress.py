"""What the user sees while a job runs: its log on stdout, and below it one line on stderr that says how far it is, from its packing on.

The line is drawn on a terminal only, and never while the log stands in the middle of a line (a progress bar of the user's).
One call at a time has the line; others in the same process show their log alone.
"""

from __future__ import annotations

import codecs
import sys
import threading
import time
from collections.abc import Mapping
from decimal import Decimal
from types import TracebackType
from typing import IO, Any, Self

from gridweave.asides import say
from gridweave.lines import Line
from gridweave.streams import State

_output = threading.Lock()
_TAIL = 16 * 1024  # characters of the log that are remembered
_MIB = 1024 * 1024
_LARGE = 8 * _MIB  # bytes of an upload that is told of where there is no line to draw
_LONG = 64 * _MIB  # bytes of a folder whose packing is
_SUBMITTING = "submitting"


class Screen:
    """Shows one job. log_to: where its log goes, sys.stdout if None."""

    def __init__(self, name: str, log_to: IO[str] | None = None, line: bool = True) -> None:
        self._name, self._log_to = name, log_to
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = Line(self._words, line)
        self._mid_line = False
        self.tail = ""  # the end of what was shown
        self._started: float | None = None
        self._rate: Decimal | None = None
        self._place = ""
        self._text = _SUBMITTING

    @property
    def shown(self) -> bool:
        """Whether there is a line to draw."""
        return self._line.shown

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Draw no line any more."""
        self._line.close()

    def packing(self, so_far: int, total: int) -> None:
        """Say how much of a folder is packed; where stderr is no terminal, only that a large one is about to be."""
        self._goes("packing", so_far, total, _LONG)

    def uploading(self, so_far: int, total: int) -> None:
        """Say how much has gone; where stderr is no terminal, only that something large is about to go."""
        self._goes("uploading", so_far, total, _LARGE)

    def _goes(self, what: str, so_far: int, total: int, large: int) -> None:
        self._text = in_mib(what, so_far, total) or _SUBMITTING
        self._draw()
        if so_far == 0 and total >= large and sys.stderr is not None and not sys.stderr.isatty():
            say(f"{what} {total / _MIB:.1f} MiB")

    def log(self, data: bytes) -> None:
        """Write a piece of the log, byte for byte where stdout takes bytes."""
        self._line.erase()
        with _output:
            stream = self._log_to if self._log_to is not None else sys.stdout
            raw = getattr(stream, "buffer", None)
            if raw is not None:
                stream.flush()
                raw.write(data)
                raw.flush()
            else:
                stream.write(self._decoder.decode(data))
                stream.flush()
        self.tail = (self.tail + data.decode("utf-8", "replace"))[-_TAIL:]
        self._mid_line = not data.endswith(b"\n")
        self._draw()

    def state(self, state: State, status: Mapping[str, Any] | None = None) -> None:
        """Say what the job is doing. status: its full status, when it was asked for."""
        if status is not None:
            self._rate = Decimal(status["rate_per_hour"]) if status.get("rate_per_hour") else None
            self._place = place(status.get("placement") or ())
        if state.phase == "Running" and self._started is None:
            self._started = time.monotonic()
        self._text = in_words(state)
        self._draw()

    def _words(self) -> str:
        from rich.markup import escape

        parts = [f"[bold]{escape(self._name)}[/bold]", escape(self._text), escape(self._place)]
        if self._started is not None:
            ran = time.monotonic() - self._started
            parts.append(elapsed(ran))
            if self._rate:
                parts.append(f"~{self._rate * Decimal(int(ran)) / 3600:.6f} credits")
        return " · ".join(part for part in parts if part)

    def _draw(self) -> None:
        if not self._mid_line:
            self._line.draw()


def in_mib(what: str, so_far: int, total: int) -> str:
    """How far an upload is, or the like; nothing when all of it is done."""
    return f"{what} {so_far / _MIB:.1f} of {total / _MIB:.1f} MiB" if so_far < total else ""


def place(placement: Any) -> str:
    """Where a job runs, for people: `node-1 GPU 0, 1 (A100-80GB)`."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for slot in placement:
        nodes.setdefault((str(slot["node"]), str(slot.get("model") or "")), []).append(str(slot["gpu"]))
    shown = (f"{node} GPU {', '.join(gpus)}" + (f" ({model})" if model else "") for (node, model), gpus in nodes.items())
    return "; ".join(shown)


def elapsed(seconds: float) -> str:
    """`7 s`, `3:07`, `1:02:09`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def in_words(state: State) -> str:
    """What a job is doing, in few words."""
    if state.phase == "Pending":
        queue = f"position {state.position} in the queue" if state.position else "queued"
        return f"{queue}: {state.waiting}" if state.waiting else queue
    if state.phase == "Allocated":
        return state.setup or "setting up"
    return {"Running": "running", "Closing": "finishing"}.get(state.phase, state.phase.lower())
