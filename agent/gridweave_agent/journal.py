"""What an agent must not forget, in a fixed folder of its node: the newest epoch, and a folder per run.

One agent at a time holds it; a second one waits, and then says who has it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gridweave_agent.protocol import Prepare, read_int, read_map
from gridweave_agent.rundir import RunDir, read_json, write_atomic, write_json


class FolderBusy(RuntimeError):
    """Another agent holds the journal's folder."""


class Journal:
    """Raises FolderBusy from `open` if the folder's holder has not ended within `wait_ms`."""

    def __init__(self, home: Path, lock: int) -> None:
        self.home, self.runs, self.trash = home, home / "runs", home / "trash"
        self._lock = lock
        self._barred = home / "barred"
        for folder in (self.runs, self.trash):
            folder.mkdir(mode=0o711, exist_ok=True)

    @staticmethod
    def open(home: Path, wait_ms: int) -> Journal:
        home.mkdir(mode=0o711, parents=True, exist_ok=True)
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        until = time.monotonic() + wait_ms / 1000
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    holder = os.pread(lock, 64, 0).decode(errors="replace").strip()
                    os.close(lock)
                    raise FolderBusy(
                        f"{home} is held by the agent with process id {holder}; end that one or give this one another dir"
                    ) from None
                time.sleep(0.05)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return Journal(home, lock)

    def close(self) -> None:
        os.close(self._lock)

    def epoch(self) -> int:
        """The highest epoch that was ever obeyed here, 0 before the first."""
        return read_int(read_json(str(self.home / "epoch.json")) or {}, "epoch", 0)

    def raise_epoch(self, epoch: int) -> None:
        """Durable when it returns."""
        write_json(str(self.home / "epoch.json"), {"epoch": epoch})

    def barred(self, most: int) -> list[str]:
        """Runs that a kill has barred, oldest first; the file keeps no more of them than `most`."""
        try:
            found = self._barred.read_text().split()
        except FileNotFoundError:
            return []
        if len(found) > most:
            write_atomic(str(self._barred), "".join(f"{run}\n" for run in found[-most:]).encode())
        return found[-most:]

    def bar(self, run: str) -> None:
        """Kept over a restart: whoever was told that the run is not here relies on it, whatever is still under way. A disk that takes
        nothing takes in no run either."""
        with suppress(OSError), self._barred.open("a") as file:
            file.write(f"{run}\n")

    def add(self, prepare: Prepare, epoch: int) -> RunDir:
        run = RunDir.of(self.runs, prepare.run)
        os.makedirs(run.path, mode=0o711, exist_ok=True)
        self.keep(run, prepare, epoch)
        return run

    def keep(self, run: RunDir, prepare: Prepare, epoch: int) -> None:
        """Store the command, also when a renewed grant has changed it."""
        write_json(run.prepare, {"epoch": epoch, "command": prepare.json()}, sync=False)

    def load(self) -> Iterator[tuple[RunDir, Prepare, int]]:
        """Every run that is not forgotten. A folder whose command was never stored holds nothing and goes."""
        for path in sorted(self.runs.iterdir()):
            run = RunDir(str(path))
            stored = read_json(run.prepare)
            try:
                if stored is None:
                    raise ValueError("no command")
                yield run, Prepare.parse(read_map(stored, "command")), read_int(stored, "epoch")
            except ValueError:
                if not run.locked():
                    self.remove(run)

    def remove(self, run: RunDir) -> None:
        """The folder is out of the way at once; its bytes go in the background."""
        target = self.trash / f"{time.monotonic_ns()}-{os.path.basename(run.path)}"
        try:
            os.rename(run.path, target)
        except FileNotFoundError:
            return
        threading.Thread(target=shutil.rmtree, args=(target, True), name="trash", daemon=True).start()

    def empty_trash(self) -> None:
        for path in self.trash.iterdir():
            shutil.rmtree(path, ignore_errors=True)
