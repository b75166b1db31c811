"""The types of this folder's fixtures."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol


class Project(Protocol):
    """Writes Python files into one folder; `a__in__b="…"` is a/b.py."""

    def __call__(self, **files: str) -> Path: ...


class Program(Protocol):
    """Runs a program in that folder."""

    def __call__(self, *arguments: str, timeout: float = 60, **environment: str) -> subprocess.CompletedProcess[str]: ...


Cli = Callable[[Sequence[str]], int]
