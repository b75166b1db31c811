"""Turns the warm process into what the user's function expects: its modules, folder, environment and devices.

After it no module of ours can be imported, `__main__` is an empty module of the user's, and the standard streams
behave as on a terminal.
"""

from __future__ import annotations

import faulthandler
import importlib
import inspect
import io
import os
import pwd
import site
import sys
import time
import types
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import cloudpickle  # type: ignore[import-untyped]  # it has no types

from gridweave_agent import frameworks, isolation


def enter(launch: Mapping[str, object]) -> None:
    """Apply the launch: uid, environment, folder, sys.path, streams, frameworks."""
    uid = launch.get("uid")
    if isinstance(uid, int):
        _become(uid)
    environment = cast("dict[str, str]", launch["environ"])
    for name, value in environment.items():
        os.environb[name.encode("utf-8", "surrogateescape")] = value.encode("utf-8", "surrogateescape")
    time.tzset()
    os.umask(0o022)
    os.chdir(str(launch["cwd"]))
    _streams()
    _forget_ourselves()
    _fresh_main(launch)
    _paths(launch)
    frameworks.limit_torch(cast("list[float]", launch["fractions"]))
    faulthandler.enable()


def _become(uid: int) -> None:
    try:
        entry = pwd.getpwuid(uid)
        gid, home, name = entry.pw_gid, entry.pw_dir, entry.pw_name
    except KeyError:
        gid, home, name = uid, "/", str(uid)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    isolation.stay_readable_to_self()
    os.environ.update(HOME=home, USER=name, LOGNAME=name)


def _streams() -> None:
    """UTF-8, and a line goes out when it ends, as on a terminal: logs are followed live. The zygote's were of another file."""
    for fd, name, errors in ((1, "stdout", "surrogateescape"), (2, "stderr", "backslashreplace")):
        raw = io.FileIO(fd, "wb", closefd=False)
        raw.name = f"<{name}>"
        stream = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=errors, line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _forget_ourselves() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "gridweave_agent"]:
        del sys.modules[name]


def _fresh_main(launch: Mapping[str, object]) -> None:
    """`__main__` as a script's: empty, so that the script's classes, pickled by value, may live in it.

    Its file gives the same names to processes that multiprocessing spawns.
    """
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    main.__file__ = str(launch["main"])
    sys.modules["__main__"] = main
    sys.argv[:] = [str(launch["name"])]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.executable]


def _paths(launch: Mapping[str, object]) -> None:
    """First the code beside the script, then PYTHONPATH, the standard library, the run's environment, the node's packages."""
    venv = str(launch.get("venv") or "")
    if venv:
        _enter_venv(venv)
    first = [path for path in (str(launch.get("code") or ""), *os.environ.get("PYTHONPATH", "").split(os.pathsep)) if path]
    sys.path[:0] = [path for path in first if path not in sys.path]
    importlib.invalidate_caches()


def _enter_venv(venv: str) -> None:
    """As if started by the environment's interpreter. Its packages come before the node's."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = f"{venv}/lib/{version}/site-packages"
    before = list(sys.path)
    site.addsitedir(packages)
    added = [path for path in sys.path if path not in before]
    node = next((index for index, path in enumerate(before) if path.endswith(("site-packages", "dist-packages"))), len(before))
    sys.path[:] = before[:node] + added + before[node:]
    sys.prefix = sys.exec_prefix = venv
    sys.executable = f"{venv}/bin/python"


def publish(function: object) -> None:
    """Put what came of the user's script into `__main__`, where pickle and multiprocessing look for it by name."""
    main = sys.modules["__main__"]
    names: dict[str, object] = {}
    plain = inspect.unwrap(function) if callable(function) else function
    if getattr(plain, "__module__", None) == "__main__":
        names |= {name: value for name, value in getattr(plain, "__globals__", {}).items() if not name.startswith("__")}
        names[str(getattr(plain, "__name__", ""))] = plain
    with suppress(Exception):  # a private table of cloudpickle: without it, only classes that no function names are missing
        for kind in list(cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS):
            if kind.__module__ == "__main__" and "." not in kind.__qualname__:
                names.setdefault(kind.__name__, kind)
    for name, value in names.items():
        if name and not hasattr(main, name):
            setattr(main, name, value)
