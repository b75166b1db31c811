"""The agent's side of the zygote: it is started when first needed, asked for supervisors, and replaced when it died."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

from gridweave_agent import hygiene, zygote

_ANSWER_BOUND = 30.0  # seconds; an interpreter starts in a tenth of one


class ForkFailed(RuntimeError):
    """No supervisor could be started."""


class Forker:
    """Serialised by its own lock: a fork takes milliseconds."""

    def __init__(self, isolation_mode: str) -> None:
        self._mode = isolation_mode
        self._lock = threading.Lock()
        self._line: socket.socket | None = None

    def fork(self, folder: str, claim: str) -> socket.socket:
        """Start the supervisor of the run in `folder`; returns the line to it. Raises ForkFailed."""
        request = json.dumps({"dir": folder, "claim": claim}).encode()
        with self._lock:
            for attempt in (1, 2):
                ours, theirs = socket.socketpair()
                try:
                    answer = self._ask(request, theirs)
                except OSError as error:
                    ours.close()
                    self._drop()
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

    def warm(self) -> None:
        """Have a zygote started, so that the first run does not wait for one."""
        with self._lock:
            if self._line is None:
                self._line = self._start()

    def close(self) -> None:
        """The zygote ends; what it forked lives on."""
        with self._lock:
            self._drop()

    def _ask(self, request: bytes, theirs: socket.socket) -> dict[str, object]:
        if self._line is None:
            self._line = self._start()
        socket.send_fds(self._line, [request], [theirs.fileno()])
        data = self._line.recv(zygote.MAX_REQUEST)
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

    def _drop(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
