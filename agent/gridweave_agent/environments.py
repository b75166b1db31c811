"""Virtual environments on this node: one per content, built once for all who wait, kept while there is room.

An environment lies on top of the node's own packages (a .pth names them). A build that fails is not remembered. A
build ends when nobody waits for it any more.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gridweave_agent.installer import Installer, InstallFailed
from gridweave_agent.protocol import EnvSpec
from gridweave_agent.rundir import read_json, write_json

_READY = "gridweave.json"  # in an environment that is whole
_TURN = 0.25  # seconds between two looks at whether a waiter has been stopped


class _Build:
    """One environment in the making, and how many wait for it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.done = threading.Event()
        self.path = ""
        self.error: InstallFailed | None = None
        self.installer = Installer()


class Environments:
    """In `home`, one folder each. count, size_bytes: kept at most; `in_use()`, folders that runs use, are never removed."""

    def __init__(self, home: Path, uv: str | None, count: int, size_bytes: int, in_use: Callable[[], set[str]]) -> None:
        self._home, self._uv, self._count, self._size, self._in_use = home, uv, count, size_bytes, in_use
        self._lock = threading.Lock()
        self._builds: dict[str, _Build] = {}
        home.mkdir(mode=0o755, parents=True, exist_ok=True)
        for path in home.iterdir():
            if path.is_dir() and not (path / _READY).exists() and path.name != "cache":
                shutil.rmtree(path, ignore_errors=True)  # a predecessor's unfinished build

    def ensure(self, spec: EnvSpec, deadline: float, stopped: Callable[[], bool], progress: Callable[[str], None]) -> str:
        """The folder of the environment for `spec`, built if need be; "" if it needs none.

        deadline: of the monotonic clock, in seconds. Raises InstallFailed with the installer's last lines.
        """
        requirements = [*spec.pip, *spec.uv]
        if not requirements:
            return ""
        key = self._key(requirements)
        with self._lock:
            if found := self._find(key):
                os.utime(f"{found}/{_READY}")
                return found
            build = self._builds.get(key)
            if build is None:
                build = self._builds[key] = _Build()
                threading.Thread(target=self._build, args=(key, requirements, build), name="environment", daemon=True).start()
            build.waiting += 1
        progress(f"Installing {_named(requirements)} (uv)…")
        try:
            while not build.done.wait(_TURN):
                if stopped():
                    raise InstallFailed("given up: the run was ended")
                if time.monotonic() > deadline:
                    raise InstallFailed(f"installing {_named(requirements)} took longer than set-up may:\n{build.installer.last_lines()}")
        finally:
            self._leave(key, build)
        if build.error is not None:
            raise build.error
        return build.path

    def _trim(self, newest: str) -> None:
        """Remove what was used longest ago, until the rest is within the bounds."""
        in_use = self._in_use() | {newest}
        with self._lock:
            kept = [(path, read_json(str(path / _READY)) or {}) for path in self._home.iterdir() if (path / _READY).exists()]
            kept.sort(key=lambda item: (item[0] / _READY).stat().st_mtime)
            size = sum(int(str(info.get("bytes", 0))) for _, info in kept)
            surplus = len(kept) - self._count
            for path, info in kept:
                if (surplus > 0 or size > self._size) and str(path) not in in_use:
                    shutil.rmtree(path, ignore_errors=True)
                    surplus, size = surplus - 1, size - int(str(info.get("bytes", 0)))

    def _leave(self, key: str, build: _Build) -> None:
        with self._lock:
            build.waiting -= 1
            alone = build.waiting == 0 and not build.done.is_set()
            if alone and self._builds.get(key) is build:
                del self._builds[key]
        if alone:
            build.installer.stop()

    def _build(self, key: str, requirements: list[str], build: _Build) -> None:
        path = self._home / f"{key}.{secrets.token_hex(4)}"
        try:
            build.installer.install(path, requirements, self._uv, self._home / "cache")
            write_json(str(path / _READY), {"requirements": requirements, "bytes": _size(path)}, sync=False)
            build.path = str(path)
            self._trim(build.path)
        except InstallFailed as error:
            build.error = error
        except Exception as error:  # whatever it is, those who wait must be told
            build.error = InstallFailed(f"the environment could not be built: {error}")
        finally:
            if build.error is not None:
                shutil.rmtree(path, ignore_errors=True)
            with self._lock:
                if self._builds.get(key) is build:
                    del self._builds[key]
                build.done.set()

    def _find(self, key: str) -> str:
        return next((str(path) for path in self._home.glob(f"{key}.*") if (path / _READY).exists()), "")

    def _key(self, requirements: list[str]) -> str:
        content = json.dumps([sorted(requirements), sys.version, sys.prefix, _node_packages()])
        return hashlib.sha256(content.encode()).hexdigest()[:20]


def _named(requirements: list[str]) -> str:
    return ", ".join(requirements[:3]) + (f" and {len(requirements) - 3} more" if len(requirements) > 3 else "")


def _node_packages() -> list[str]:
    """A stamp of what is installed on the node: an upgrade there makes other environments."""
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return sorted(name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder) if name.endswith(".dist-info"))


def _size(path: Path) -> int:
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)
