"""Failpoints: this process kills itself at a named call to a port, so that tests see what a crash there leaves behind.

    GRIDWEAVE_FAILPOINT = PORT.METHOD[@SITE][:before|after[:N[:kill|stop]]]

PORT is one of those below, METHOD one of its methods. A call that carries commands to an agent is also known by their
kinds: `agent.prepare`, `agent.go`, `agent.kill`, `agent.renew`, `agent.forget`. SITE narrows it to one place of ours,
the calling function and its caller: `workloads.replace@schedule._write<schedule._start`. The N-th such call (the first
by default) ends the process by SIGKILL, before it is made (by default) or after it has come back; `stop` is SIGSTOP
instead: the process goes on right there when somebody sends it SIGCONT.

With STORE=kubernetes two more are below the ports: `kube`, each request for an object (`kube.patch_namespaced_custom_object`
of a finalizer), and `lease`, each request for the Lease.

    GRIDWEAVE_FAILPOINT_LOG = FILE

lists each call as `PORT.METHOD@SITE`, and the failpoint itself as `!` with its text when it is reached: that is how a walk
over all of them learns which there are. Without these variables nothing is wrapped, and nothing costs anything.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import structlog
from attrs import evolve, field, frozen

from core.house import House
from ports.errors import Invalid
from runtimes.settings import WrongSettingsError

FAILPOINT, LOG = "GRIDWEAVE_FAILPOINT", "GRIDWEAVE_FAILPOINT_LOG"
PORTS = ("workloads", "nodes", "credits", "tariffs", "blobs", "leadership", "epochs", "metering", "cluster", "agent", "kube", "lease")
_GRAMMAR = re.compile(
    rf"(?P<call>(?:{'|'.join(PORTS)})\.[a-z_]+)"
    r"(?:@(?P<site>[\w.<]+))?(?::(?P<when>before|after)(?::(?P<n>[1-9][0-9]{0,5})(?::(?P<how>kill|stop))?)?)?"
)
_STORE = "adapters.k8s."
_OURS = ("core.", "runtimes.", _STORE)
_THROUGH = ("runtimes.failpoints", f"{_STORE}objects", f"{_STORE}client")  # on the way of every call
_FIRST = os.getpid()  # where this was loaded: a worker of the gateway was forked from it, and would be replaced by it
T = TypeVar("T")
log = structlog.get_logger("gridweave.failpoint")


@frozen
class Failpoint:
    """call: "port.method". site: "" is anywhere. n: of the calls that fit, from 1. stop: not killed, but stopped."""

    call: str
    site: str = ""
    after: bool = False
    n: int = 1
    stop: bool = False

    @staticmethod
    def parse(text: str) -> Failpoint:
        """Raises Invalid."""
        found = _GRAMMAR.fullmatch(text)
        if found is None:
            remedy = f"Set it to PORT.METHOD[@SITE][:before|after[:N[:kill|stop]]], PORT one of {', '.join(PORTS)}; or unset it."
            raise Invalid(f"{FAILPOINT} is {text!r:.120}.", FAILPOINT, remedy, text)
        return Failpoint(found["call"], found["site"] or "", found["when"] == "after", int(found["n"] or 1), found["how"] == "stop")

    def __str__(self) -> str:
        where = f"{self.call}{'@' if self.site else ''}{self.site}"
        return f"{where}:{'after' if self.after else 'before'}:{self.n}{':stop' if self.stop else ''}"


@frozen
class Failpoints:
    """What a process was told by its environment."""

    point: Failpoint | None
    file: Path | None
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _seen: list[int] = field(factory=lambda: [0], init=False)

    @staticmethod
    def read(environment: Mapping[str, str]) -> Failpoints | None:
        """None if it was told nothing. Raises Invalid."""
        text, file = environment.get(FAILPOINT, ""), environment.get(LOG, "")
        if not text and not file:
            return None
        return Failpoints(Failpoint.parse(text) if text else None, Path(file) if file else None)

    def house(self, house: House) -> House:
        names = ("workloads", "nodes", "credits", "tariffs", "blobs", "metering")
        return evolve(house, **{name: self.wrapped(getattr(house, name), name) for name in names})

    def wrapped(self, port: T, name: str) -> T:
        return cast(T, _Wrapped(port, name, self))

    def around(self, names: tuple[str, ...], call: Callable[[], Any]) -> Any:
        site = _site()
        self._note(*(f"{name}@{site}" for name in names))
        here = self.point is not None and self._counts(self.point, names, site)
        ends = here and cast(Failpoint, self.point).after
        if here and not ends:
            self._reached()
        try:
            return call()
        finally:
            if ends:
                self._reached()

    def _counts(self, point: Failpoint, names: tuple[str, ...], site: str) -> bool:
        if point.call not in names or point.site not in ("", site):
            return False
        with self._lock:
            self._seen[0] += 1
            return self._seen[0] == point.n

    def _note(self, *lines: str) -> None:
        if self.file is not None:
            handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(handle, "".join(f"{line}\n" for line in lines).encode())
            finally:
                os.close(handle)

    def _reached(self) -> None:
        """Killed with the process that would start another in this one's place; stopped alone."""
        self._note(f"!{self.point}")
        if cast(Failpoint, self.point).stop:
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread takes no step more; the others stop with it
            return
        for pid in (_FIRST, os.getpid()):
            os.kill(pid, signal.SIGKILL)


def check(environment: Mapping[str, str]) -> None:
    """Raises WrongSettingsError; says loudly that a failpoint is set."""
    try:
        told = Failpoints.read(environment)
    except Invalid as error:
        raise WrongSettingsError([error]) from None
    if told is not None and told.point is not None:
        log.warning("this process will stop itself" if told.point.stop else "this process will kill itself", failpoint=str(told.point))


class _Wrapped:
    """A port whose calls pass by the failpoints. What `cluster.agent` gives is wrapped too."""

    def __init__(self, port: object, name: str, points: Failpoints) -> None:
        self._port, self._name, self._points = port, name, points

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._port, attribute)
        if attribute.startswith("_") or not callable(found):
            return found
        points, name = self._points, self._name

        def passing(*args: Any, **kwargs: Any) -> Any:
            given = points.around(tuple(_names(name, attribute, args)), lambda: found(*args, **kwargs))
            return points.wrapped(given, "agent") if (name, attribute) == ("cluster", "agent") else given

        self.__dict__[attribute] = passing
        return passing


def _names(port: str, method: str, args: tuple[Any, ...]) -> Iterator[str]:
    """All names of one call."""
    yield f"{port}.{method}"
    if (port, method) == ("agent", "command"):
        yield from (f"agent.{kind}" for kind in sorted({type(each).__name__.lower() for each in args[1]}))


def _site() -> str:
    """The function of ours that makes the call, and the one that called it."""
    found: list[str] = []
    frame = sys._getframe(2)
    while frame is not None and len(found) < 2:
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module.startswith(_OURS) and module not in _THROUGH and not function.startswith("<"):
            found.append(f"{module.rpartition('.')[2]}.{function}")
        frame = frame.f_back  # type: ignore[assignment]
    return "<".join(found)
