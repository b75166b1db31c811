"""The supervisor's loop: one thread, one `poll`, from a warm process that waits for go to the record of its end.

It takes the log and the result off their pipes, obeys the agent, keeps the time, and ends the run whole: gone is
said only when the process below has been collected, and no child is left.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from gridweave_agent import clock, descendants, ending, inner, isolation, oom
from gridweave_agent.control import Control
from gridweave_agent.durations import in_words
from gridweave_agent.ended import Ended
from gridweave_agent.ending import Seen
from gridweave_agent.frames import FrameReader
from gridweave_agent.logfile import LogFile
from gridweave_agent.protocol import GONE, PREPARING, READY, RUNNING, SETUP_FAILED, Exit, Result
from gridweave_agent.rundir import RunDir, write_json
from gridweave_agent.wakeup import ChildWakeup

_BLOCK = 1 << 20
_LOG_NEWS_MS = 50  # followers gather for longer than this
_RESERVE = 256 * 1024  # bytes kept free for the record of the end, should the log fill the disk
_PATIENT_ROUNDS = 5  # seconds after which a lower subreaper is given up, and its orphans are ours
_ASKED = "It was ended on request."


@dataclass(frozen=True)
class Pipe:
    read: int
    write: int

    @staticmethod
    def open() -> Pipe:
        read, write = os.pipe()
        return Pipe(read, write)


@dataclass(frozen=True)
class Pipes:
    """To and from the user's process."""

    log: Pipe
    frames: Pipe
    go: Pipe

    @staticmethod
    def open() -> Pipes:
        pipes = Pipes(Pipe.open(), Pipe.open(), Pipe.open())
        for pipe in (pipes.log, pipes.frames):
            os.set_blocking(pipe.read, False)
            with suppress(OSError):
                fcntl.fcntl(pipe.write, fcntl.F_SETPIPE_SZ, _BLOCK)
        return pipes


@dataclass(frozen=True)
class Below:
    """The process below the supervisor: its pid, the user's pipes, a socket for orders, and a pipe with how the user's process ended."""

    pid: int
    pipes: Pipes
    orders: socket.socket
    status: int


class Watch:
    """One run, from ready to gone."""

    def __init__(self, run: RunDir, launch: Mapping[str, object], mode: str, link: socket.socket, below: Below) -> None:
        self._run, self._mode = run, mode
        self._below, self._pipes, self._orders = below.pid, below.pipes, below.orders
        self._status_fd = below.status
        limits = {name: int(str(launch[name])) for name in ("log_cap_bytes", "result_cap_bytes", "heartbeat_ms")}
        self._heartbeat_every = limits["heartbeat_ms"]
        self._log = LogFile(run.log, limits["log_cap_bytes"])
        self._frames = FrameReader(run.result, limits["result_cap_bytes"])
        self._wakeup = ChildWakeup()
        self._poll = select.poll()
        for fd in (self._pipes.log.read, self._pipes.frames.read, self._wakeup.fd):
            self._poll.register(fd, select.POLLIN)
        self._control = Control(run.control, link, self._poll)
        self._reserve()
        self._heartbeat_fd = os.open(run.heartbeat, os.O_WRONLY | os.O_CREAT, 0o600)
        self._state = PREPARING
        self._go_ms: int | None = None
        self._run_until: int | None = None
        self._kill_at: int | None = None
        self._next_heartbeat = 0
        self._killed = ""
        self._below_raw: int | None = None
        self._told = ("", 0)
        self._told_at = 0
        self._oom_before = 0
        self._limit = 0
        self._insisted = 0

    def loop(self) -> None:
        while not self._all_gone():
            for fd, _ in self._poll.poll(self._patience()):
                self._serve(fd)
            self._keep_time()
            self._tell()
        self._end()

    # ------------------------------------------------------------ what comes in

    def _serve(self, fd: int) -> None:
        if fd == self._pipes.log.read:
            self._drain(fd, once=True)
        elif fd == self._pipes.frames.read:
            self._drain(fd, once=True)
            if self._frames.ready and self._state == PREPARING:
                self._state = READY
        elif fd == self._wakeup.fd:
            self._wakeup.clear()
        elif self._control.owns(fd):
            for order in self._control.orders(fd, self._summary()):
                self._obey(order)

    def _drain(self, fd: int, *, once: bool = False) -> None:
        while True:
            try:
                data = os.read(fd, _BLOCK)
            except BlockingIOError:
                return
            if not data:
                with suppress(KeyError):
                    self._poll.unregister(fd)
                return
            if fd == self._pipes.log.read:
                self._log.write(data)
            else:
                self._frames.feed(data)
            if once:
                return

    def _obey(self, order: Mapping[str, object]) -> None:
        if order.get("do") == "go" and self._state == READY and not self._killed:
            self._go(int(str(order["at_ms"])), order.get("max_runtime_ms"))
        elif order.get("do") == "kill":
            self._kill(int(str(order.get("grace_ms", 0))), _ASKED)

    def _go(self, at_ms: int, max_runtime_ms: object) -> None:
        self._go_ms, self._state = at_ms, RUNNING
        self._oom_before = oom.kills()
        if isinstance(max_runtime_ms, int):
            self._run_until = at_ms + max_runtime_ms
            self._limit = max_runtime_ms
        with suppress(BrokenPipeError):
            os.write(self._pipes.go.write, b"g")
        self._keep_time()

    def _kill(self, grace_ms: int, why: str) -> None:
        """Ask, then insist. A second order can only hasten the end."""
        at = clock.now_ms() + (grace_ms if self._state == RUNNING else 0)
        if self._state == RUNNING and not self._killed:
            self._order(b"T")
        self._killed = self._killed or why
        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)

    def _order(self, order: bytes) -> None:
        with suppress(OSError):
            self._orders.send(order)

    # ------------------------------------------------------------ time

    def _patience(self) -> int:
        """Milliseconds that the loop may sleep."""
        now = clock.now_ms()
        if self._below_raw is not None:
            return 2  # leftovers are being killed
        dates = [date for date in (self._run_until, self._kill_at) if date is not None]
        if self._state == RUNNING:
            dates.append(self._next_heartbeat)
        if self._log.size != self._told[1]:
            dates.append(self._told_at + _LOG_NEWS_MS)
        return max(0, min(dates) - now) if dates else 60_000

    def _keep_time(self) -> None:
        now = clock.now_ms()
        if self._state == RUNNING and now >= self._next_heartbeat:
            self._next_heartbeat = now + self._heartbeat_every
            self._beat(now)
        if self._run_until is not None and now >= self._run_until and not self._killed:
            self._run_until = None
            self._kill(3000, f"It ran longer than its limit of {in_words(self._limit)}.")
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = now + 1000  # again, should an order be lost
            self._insist()

    def _beat(self, now: int) -> None:
        with suppress(OSError):
            os.pwrite(self._heartbeat_fd, f"{now:020d} {clock.boot_id()}\n".encode(), 0)

    def _insist(self) -> None:
        """End everything. In a namespace the death of its init does it; a lower subreaper needs the time to do it itself."""
        self._order(b"K")
        if self._below_raw is None and (self._mode == isolation.NAMESPACE or self._insisted >= _PATIENT_ROUNDS):
            with suppress(ProcessLookupError):
                os.kill(self._below, signal.SIGKILL)
        self._insisted += 1

    # ------------------------------------------------------------ the end

    def _all_gone(self) -> bool:
        """Whether the process below is collected and nobody has been left to us as an orphan."""
        if self._below_raw is None:
            try:
                pid, raw = os.waitpid(self._below, os.WNOHANG)
            except ChildProcessError:
                pid, raw = self._below, 0
            if pid == 0:
                return False
            self._below_raw = raw
        if not descendants.reap():
            return True
        descendants.kill_round()
        return False

    def _end(self) -> None:
        gone_ms = clock.now_ms()
        for fd in (self._pipes.log.read, self._pipes.frames.read):
            self._drain(fd)
        self._frames.close()
        self._log.close()
        with suppress(OSError):
            os.unlink(f"{self._run.path}/reserve")
        result = None
        if self._frames.kept:
            result = Result(self._frames.size, self._frames.sha256, self._frames.complete == "X")
        ran_ms = max(0, gone_ms - self._go_ms) if self._go_ms is not None else 0
        self._record(Ended(self._exit(), self._go_ms is not None, ran_ms, self._log.size, result))
        self._state = GONE
        self._control.tell(self._summary())
        self._control.close()

    def _record(self, ended: Ended) -> None:
        """Write how it ended; a disk that is full now may not be so in a second, and nobody else knows this."""
        while True:
            try:
                write_json(self._run.exit, ended.json())
            except FileNotFoundError:
                return  # the folder was removed: nobody will ask
            except OSError:
                time.sleep(1)
            else:
                return

    def _exit(self) -> Exit:
        try:
            data = os.read(self._status_fd, inner.STATUS.size)
        except OSError:
            data = b""
        status = inner.STATUS.unpack(data)[0] if len(data) == inner.STATUS.size else None
        if status is None and self._below_raw is not None and os.waitstatus_to_exitcode(self._below_raw) == inner.MOUNT_FAILED:
            return Exit(SETUP_FAILED, message="The node refused to mount /proc for this run.")
        return ending.classify(
            Seen(
                started=self._go_ms is not None,
                status=status,
                killed=self._killed,
                complete=self._frames.complete,
                failure=self._frames.failure,
                lost=self._frames.lost,
                note=self._frames.note,
                oom=oom.kills() > self._oom_before,
                log_tail=ending.tail(self._run.log),
            )
        )

    def _reserve(self) -> None:
        with suppress(OSError):
            fd = os.open(f"{self._run.path}/reserve", os.O_WRONLY | os.O_CREAT, 0o600)
            os.posix_fallocate(fd, 0, _RESERVE)
            os.close(fd)

    # ------------------------------------------------------------ what goes out

    def _summary(self) -> dict[str, object]:
        return {"state": self._state, "go_ms": self._go_ms, "log_bytes": self._log.size}

    def _tell(self) -> None:
        """The state at once when it changes, the length of the log now and then."""
        news = (self._state, self._log.size)
        now = clock.now_ms()
        if news != self._told and (news[0] != self._told[0] or now >= self._told_at + _LOG_NEWS_MS):
            self._told, self._told_at = news, now
            self._control.tell(self._summary())
