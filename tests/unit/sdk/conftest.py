"""A gateway for each test, and a way to run scripts and commands against it as a user would: in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.unit.sdk.gateway import Gateway
from tests.unit.sdk.running import Program, Project

SDK = Path(__file__).resolve().parents[3] / "sdk"


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    folder = tmp_path / "gateway"
    folder.mkdir()
    running = Gateway(folder)
    monkeypatch.setenv("GRIDWEAVE_URL", running.url)
    monkeypatch.delenv("GRIDWEAVE_API_KEY", raising=False)
    yield running
    running.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Writes files, by name and text, into one folder."""

    def write(**files: str) -> Path:
        folder = tmp_path / "project"
        for name, text in files.items():
            path = folder / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return folder

    return write


@pytest.fixture
def python(tmp_path: Path) -> Program:
    """Runs Python with our package importable, in the project's folder."""

    def run(*arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path / "project"
        folder.mkdir(exist_ok=True)
        env = {**os.environ, "PYTHONPATH": str(SDK), "PYTHONWARNINGS": "error", **environment}
        return subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


@pytest.fixture
def command(python: Program) -> Program:
    """Runs the command line."""

    def run(*arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]:
        return python("-m", "gridweave", *arguments, timeout=timeout, **environment)

    return run


@pytest.fixture
def cli() -> Callable[[Sequence[str]], int]:
    """The command line inside this process. Imported here: a node that imports a test module has no such package."""
    from gridweave.commands import run

    return run
