"""A run's folder: the names of its files, and how they are written so that a reader never sees half of one.

Schema 1. Agent: `prepare.json` (the command), `claim` (whose turn it is to fork), `launch.json` (for the
supervisor; no grants), `go` (fsynced before user code starts), `chunks` and `stored.json` (uploads). Supervisor:
`alive` (locked while it lives), `supervisor.json`, `heartbeat`, `log`, `result`, `exit.json`, `control` (socket).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

SCHEMA = 1
AGAIN_S = 1.0  # until what could not be written is tried again


def write_atomic(path: str, data: bytes, *, sync: bool = True, mode: int = 0o600) -> None:
    """All of `data` or the old file for every reader. sync: durable when it returns."""
    part = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(part, path)
    if sync:
        sync_folder(os.path.dirname(path))


def persistently(record: Callable[[], None]) -> None:
    """Until it can be written: a disk that is full for a while must not leave a run that nobody ends."""
    while True:
        try:
            record()
            return
        except OSError:
            time.sleep(AGAIN_S)


def sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_json(path: str, value: Mapping[str, object], *, sync: bool = True) -> None:
    write_atomic(path, json.dumps({"schema": SCHEMA, **value}).encode(), sync=sync)


def read_json(path: str) -> dict[str, object] | None:
    """The stored object; None if there is none or it is of no use."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class RunDir:
    """Paths of one run's folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    @staticmethod
    def of(runs: Path, run: str) -> RunDir:
        """The folder of that run; a readable name, made unique by a digest."""
        readable = re.sub(r"[^A-Za-z0-9_-]", ".", run)[:60].lstrip(".")
        return RunDir(str(runs / f"{readable}-{sha256(run.encode()).hexdigest()[:10]}"))

    def __getattr__(self, name: str) -> str:
        if name not in _FILES:
            raise AttributeError(name)
        return f"{self.path}/{_FILES[name]}"

    def locked(self) -> bool:
        """Whether a supervisor of this run lives."""
        try:
            fd = os.open(self.alive, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


_FILES = {
    "prepare": "prepare.json",
    "claim": "claim",
    "launch": "launch.json",
    "go": "go",
    "alive": "alive",
    "supervisor": "supervisor.json",
    "heartbeat": "heartbeat",
    "log": "log",
    "result": "result",
    "exit": "exit.json",
    "control": "control",
    "chunks": "chunks",
    "stored": "stored.json",
    "inputs": "in",
    "code": "code",
    "work": "work",
}
