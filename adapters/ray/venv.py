"""The node venv: a virtual environment for the local Ray, with nothing in it but ray and cloudpickle.

A user's `import core` must never find ours, so the demo's nodes do not run in our own environment. The versions of
ray, cloudpickle and Python are ours, or a driver of ours could not talk to it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from uv import find_uv_bin

from adapters.ray.processors import every_processor
from ports.errors import Unavailable
from ports.units import Span

_READY = "gridweave-ready"
_PARTS = ("ray", "cloudpickle")


def ensure_node_venv(home: Path, progress: Callable[[str], None], within: Span = Span(600_000)) -> Path:
    """The python of the node venv below `home`, made if it is not there; another version of ray gets another one.

    progress: is told in words what takes time. Raises Unavailable, with the installer's last lines, if it can't be
    made `within` that time. Any number of processes may ask at once; one makes it.
    """
    wanted = [f"{part}=={version(part)}" for part in _PARTS]
    folder = home / "-".join(["venv", f"py{sys.version_info.major}.{sys.version_info.minor}", *(each.replace("==", "") for each in wanted)])
    python = folder / "bin" / "python"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(home / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / _READY).exists() and python.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        progress(f"Making a virtual environment for the local Ray ({', '.join(wanted)})")
        _run([uv_binary(), "venv", "--quiet", "--python", sys.executable, str(folder)], within)
        _run([uv_binary(), "pip", "install", "--quiet", "--python", str(python), *wanted], within)
        (folder / _READY).touch()
    return python


def uv_binary() -> str:
    """Path of the `uv` that is installed with us. Raises Unavailable if there is none."""
    try:
        return find_uv_bin()
    except FileNotFoundError as error:
        raise Unavailable("uv", "it is not installed; install it with: pip install uv") from error


def _run(command: list[str], within: Span) -> None:
    try:
        with every_processor():
            done = subprocess.run(  # noqa: S603 - our own commands
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=within.seconds,
                env=os.environ | {"UV_NO_PROGRESS": "1"},
            )
    except subprocess.TimeoutExpired as error:
        raise Unavailable("ray", f"the node environment was not made in {within.seconds:g} s") from error
    if done.returncode != 0:
        raise Unavailable("ray", f"the node environment can't be made: {' '.join(done.stdout.splitlines()[-5:])}")
