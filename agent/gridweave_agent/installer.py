"""One run of uv, in a scrubbed process group that is killed whole: make a virtual environment and fill it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from contextlib import suppress
from pathlib import Path

from gridweave_agent import hygiene

_LINES = 30
_OPTIONS = ("--index-url ", "--extra-index-url ", "--find-links http", "--no-binary ", "--only-binary ", "--pre")


class InstallFailed(Exception):
    """No environment; the text ends with the installer's own last lines."""


class Installer:
    """Used once. `stop` may be called by any thread, at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._output = Path()

    def install(self, path: Path, requirements: list[str], uv: str | None, cache: Path) -> None:
        """Build the environment at `path`. Raises InstallFailed."""
        check(requirements)
        path.mkdir(mode=0o755, parents=True)
        self._output = path / "install.log"
        program = find_uv(uv)
        venv = path / "venv"
        self._run([program, "venv", "--quiet", "--no-project", "--no-config", "--python", sys.executable, str(venv)], cache)
        packages = next(venv.glob("lib/python*/site-packages"))
        (packages / "_node.pth").write_text("\n".join(node_packages()) + "\n", encoding="utf-8")
        listed = path / "requirements.txt"
        listed.write_text("\n".join(requirements) + "\n", encoding="utf-8")
        self._run([program, "pip", "install", "--python", str(venv / "bin/python"), "--requirement", str(listed)], cache)

    def stop(self) -> None:
        """Kill the installer and whatever it started."""
        with self._lock:
            self._stopped = True
            if self._process is not None and self._process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def last_lines(self) -> str:
        """What the installer said last."""
        try:
            return "\n".join(self._output.read_text(errors="replace").splitlines()[-_LINES:])
        except OSError:
            return ""

    def _run(self, command: list[str], cache: Path) -> None:
        environ = {"UV_CACHE_DIR": str(cache), **_translated(hygiene.scrubbed_for_installer(os.environ))}
        with open(self._output, "ab") as output, self._lock:
            if self._stopped:
                raise InstallFailed("given up")
            self._process = subprocess.Popen(  # noqa: S603  uv with arguments of ours; requirements go by file
                command,
                cwd=self._output.parent,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        code = self._process.wait()
        if code != 0:
            raise InstallFailed(f"installing failed ({os.path.basename(command[0])} ended with {code}):\n{self.last_lines()}")


def check(requirements: list[str]) -> None:
    """Raise InstallFailed for what would make the installer, which runs as the agent, read the node's own files."""
    for text in requirements:
        option = text.startswith("-") and not text.startswith(_OPTIONS)
        if option or len(text.splitlines()) != 1 or "file:" in text or text.startswith((".", "/", "~")):
            raise InstallFailed(f"{text[:200]!r} is no requirement that is installed here; give a name, with a version if need be")


def find_uv(given: str | None) -> str:
    """The uv to use: as given, beside the interpreter, of the `uv` package, or on PATH. Raises InstallFailed."""
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    scripts = os.path.join(sysconfig.get_path("scripts"), "uv")
    for candidate in (given, beside, scripts, shutil.which("uv")):
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    raise InstallFailed("this node has no uv, with which environments are built; install the package `uv` there or set the agent's `uv`")


def node_packages() -> list[str]:
    """The folders of the node's own packages, that an environment lies on top of."""
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages")) and os.path.isdir(path)]


def _translated(environ: dict[str, str]) -> dict[str, str]:
    """uv does not read pip's variables: give it the site's index in its own words, where it has none."""
    pairs = (("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), ("PIP_EXTRA_INDEX_URL", "UV_INDEX"), ("PIP_FIND_LINKS", "UV_FIND_LINKS"))
    return environ | {ours: environ[theirs] for theirs, ours in pairs if theirs in environ and ours not in environ}
