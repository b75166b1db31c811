"""Finds the modules that belong to the user: those that no node has.

A module is the user's if its file lies outside the standard library and outside site-packages: beside the script, in the
notebook's folder, on PYTHONPATH, in an editable install. From the names that pickles refer to, the search follows what the
sources import (also inside functions, never executing anything) and what loaded modules hold, until nothing new is found.
A regular package travels whole, with its small data files; of a namespace package only the modules that are reached.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType, ModuleType

from gridweave.imports import imported_by

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    | {".ipynb_checkpoints", ".eggs"}
)
OURS = "gridweave"
_compiling = threading.Lock()  # warnings.catch_warnings is of the whole process
_NODE_SIDE = (
    "__init__",
    "decorated",
    "errors",
    "functions",
    "limits",
    "options",
    "signatures",
    "version",
    "ways",
)  # what needs the standard library only


def local_files(names: Iterable[str]) -> dict[str, Path]:
    """Files to send, by their path below the root that the cluster puts on sys.path."""
    search = _Search()
    search.wanted.extend(sorted(set(names)))
    while search.wanted:
        search.visit(search.wanted.pop())
    return search.files


def walk(folder: Path) -> Iterator[Path]:
    """Regular files below a folder, in a fixed order, without version control, caches and virtual environments."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not skipped(Path(parent, each)))
        yield from (path for path in (Path(parent, each) for each in sorted(files)) if path.is_file())


def skipped(folder: Path) -> bool:
    """Whether that folder is left behind: version control, a cache, a virtual environment."""
    environment = os.path.exists(folder / "pyvenv.cfg")  # False for a folder that may not be looked into
    return environment or folder.name in SKIPPED_FOLDERS or folder.name.endswith(".egg-info")


def installed(path: Path) -> bool:
    """Whether that file belongs to Python or to an installed package."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.is_relative_to(root) or path.resolve().is_relative_to(root) for root in _python_folders())


@functools.cache
def _python_folders() -> frozenset[Path]:
    roots = {Path(sysconfig.get_paths()[key]) for key in ("stdlib", "platstdlib")}
    return frozenset(roots | {root.resolve() for root in roots})


class _Search:
    def __init__(self) -> None:
        self.files: dict[str, Path] = {}
        self.wanted: list[str] = []
        self._seen: set[str] = set()
        self._installed: set[str] = set()

    def visit(self, name: str) -> None:
        if not name or name in self._seen or name == "__main__":
            return
        self._seen.add(name)
        top = name.partition(".")[0]
        if top == OURS:
            self._add_ourselves()
            return
        if top != name:
            self.visit(top)
            if f"{top}/__init__.py" in self.files or top in self._installed:
                return  # a regular package travels whole, or not at all
            self.visit(name.rpartition(".")[0])
        self._locate(name)

    def _locate(self, name: str) -> None:
        file, folders = _found(name)
        if file is not None and installed(file):
            self._installed.add(name)
        elif file is not None and file.is_file():
            below = name.replace(".", "/")
            if file.name == "__init__.py":
                self._add_package(below, file.parent)
            else:
                self._add(f"{below}{''.join(file.suffixes)}", file, name.rpartition(".")[0])
            self._follow_loaded(name)
        elif file is None and folders and all(not installed(Path(each)) for each in folders):
            self._follow_loaded(name)

    def _add_package(self, below: str, folder: Path) -> None:
        for path in walk(folder):
            inside = path.relative_to(folder)
            package = ".".join([below.replace("/", "."), *inside.parent.parts])
            self._add(f"{below}/{inside.as_posix()}", path, package)

    def _add(self, entry: str, path: Path, package: str) -> None:
        self.files[entry] = path
        if path.suffix == ".py":
            self.wanted.extend(imports_of(path, package))

    def _add_ourselves(self) -> None:
        self.files |= {f"{OURS}/{name}.py": Path(__file__).with_name(f"{name}.py") for name in _NODE_SIDE}

    def _follow_loaded(self, name: str) -> None:
        """Also what a loaded module holds: it may have been imported by a computed name."""
        module = sys.modules.get(name)
        for value in list(vars(module).values()) if module is not None else ():
            if isinstance(value, ModuleType):
                self.wanted.append(value.__name__)
            elif isinstance(value, (type, FunctionType)):
                self.wanted.append(str(value.__module__))


def _found(name: str) -> tuple[Path | None, list[str]]:
    """Where a module is: its file, or the folders of a namespace package; (None, []) if it has neither."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return (Path(file), []) if file else (None, [str(each) for each in getattr(loaded, "__path__", ())])
    parent = name.rpartition(".")[0]
    try:
        spec = PathFinder.find_spec(name, _found_folders(parent)) if parent else importlib.util.find_spec(name)
    except KeyError:  # a namespace package inside one that is not imported
        inside = (Path(each, name.rpartition(".")[2]) for each in _found_folders(parent))
        return None, [str(folder) for folder in inside if folder.is_dir()]
    except (ImportError, ValueError, AttributeError):
        return None, []
    if spec is None:
        return None, []
    if spec.has_location and spec.origin:
        return Path(spec.origin), []
    return None, [str(each) for each in spec.submodule_search_locations or ()]


def _found_folders(name: str) -> list[str]:
    file, folders = _found(name)
    return [str(file.parent)] if file is not None and file.name == "__init__.py" else folders


def imports_of(path: Path, package: str) -> Iterator[str]:
    """Absolute names of all that a source file imports anywhere; of `from a import b` both a and a.b."""
    try:
        with _compiling, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's own source; he has seen them
            code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from imported_by(code, package)
