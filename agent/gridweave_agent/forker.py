"""The agent's side of the zygote: it is started when first needed, kept one warm supervisor ahead, and replaced when it died."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading

from gridweave_agent import hygiene, zygote

log = logging.getLogger("gridweave_agent")

_ANSWER_BOUND = 30.0  # seconds; an interpreter starts in a tenth of one
_REFILL_PAUSE = 0.02  # seconds; a spare is forked when the run that took the last one has had the processor


class ForkFailed(RuntimeError):
    """No supervisor could be started."""


class Forker:
    """Forks are serialised by a lock of their own: one takes milliseconds. spares: supervisors kept ready."""

    def __init__(self, isolation_mode: str, spares: int) -> None:
        self._mode, self._wanted = isolation_mode, spares
        self._forking = threading.Lock()
        self._changed = threading.Condition()
        self._spares: list[socket.socket] = []
        self._zygote: socket.socket | None = None
        self._closed = False
        self._refiller = threading.Thread(target=self._refill, name="spares", daemon=True)
        self._refiller.start()

    def assign(self, folder: str, claim: str) -> socket.socket:
        """Give the run in `folder` a supervisor; returns the line to it. Raises ForkFailed."""
        line = self._spare() or self._fork()
        try:
            line.sendall(json.dumps({"dir": folder, "claim": claim}).encode() + b"\n")
        except OSError as error:
            line.close()
            raise ForkFailed(f"a new supervisor ended at once: {error}") from error
        return line

    def close(self) -> None:
        """The zygote and the spares end; supervisors that have a run live on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._refiller.join()
        with self._forking:
            self._drop_zygote()
        for line in self._spares:
            line.close()

    def _spare(self) -> socket.socket | None:
        with self._changed:
            self._changed.notify_all()
            while self._spares:
                line = self._spares.pop(0)
                if _lives(line):
                    return line
                line.close()
        return None

    def _refill(self) -> None:
        """Keep spares, from a thread: nobody waits for them."""
        while True:
            with self._changed:
                while not self._closed and len(self._spares) >= self._wanted:
                    self._changed.wait()
                self._changed.wait_for(lambda: self._closed, _REFILL_PAUSE)
                if self._closed:
                    return
            try:
                line = self._fork()
            except ForkFailed as error:
                log.warning("no supervisor can be kept ready: %s", error)
                with self._changed:
                    self._changed.wait_for(lambda: self._closed, _ANSWER_BOUND)
                continue
            with self._changed:
                self._spares.append(line)

    def _fork(self) -> socket.socket:
        with self._forking:
            for attempt in (1, 2):
                ours, theirs = socket.socketpair()
                try:
                    answer = self._ask(theirs)
                except OSError as error:
                    ours.close()
                    self._drop_zygote()
                    if attempt == 2:
                        raise ForkFailed(f"the zygote does not answer: {error}") from error
                    continue
                finally:
                    theirs.close()
                if "pid" in answer:
                    return ours
                ours.close()
                raise ForkFailed(str(answer.get("error", "the zygote refused")))
        raise AssertionError("unreachable")

    def _ask(self, theirs: socket.socket) -> dict[str, object]:
        if self._zygote is None:
            self._zygote = self._start()
        socket.send_fds(self._zygote, [zygote.FORK], [theirs.fileno()])
        data = self._zygote.recv(zygote.MAX_ANSWER)
        if not data:
            raise ConnectionResetError("it is gone")
        answer: dict[str, object] = json.loads(data)
        return answer

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        package = os.path.dirname(os.path.dirname(os.path.abspath(zygote.__file__)))
        command = [sys.executable, "-c", zygote.BOOT, package, str(theirs.fileno()), self._mode]
        with theirs:
            starter = subprocess.Popen(  # noqa: S603  our own interpreter, and arguments of ours
                command,
                cwd="/",
                env=hygiene.scrubbed(os.environ),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        starter.wait(_ANSWER_BOUND)  # it forks the zygote, which so is no child of ours, and ends
        ours.settimeout(_ANSWER_BOUND)
        return ours

    def _drop_zygote(self) -> None:
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None


def _lives(line: socket.socket) -> bool:
    """Whether the other end is still held: nothing to read is a good sign, an end is not."""
    try:
        line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
