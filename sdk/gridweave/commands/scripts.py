"""Loads the function that `FILE.py:FUNC` names.

The file is imported as a module of its own name, with its folder first on sys.path, and travels as one: the node imports it
too. A file of a package is imported as that package's module, so that `from . import` works; a package is what has an
`__init__.py`, or as many folders as the file's relative imports climb. A file named like a module that every Python has
(`random.py`) is sent by value instead, as a script run directly is. While it is imported nothing can be started: it holds the
function, and is not the program that calls it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from gridweave.errors import Refused
from gridweave.functions import Function, function_of
from gridweave.imports import climb
from gridweave.options import Options
from gridweave.ways import AT_IMPORT, importing


def load(target: str) -> Function[..., Any]:
    """The function, decorated. Raises Refused if the file or the function is not there, or the file fails."""
    path, colon, name = target.rpartition(":")
    if not colon or not path.rstrip(":") or not name:
        raise _refuse(f"{target!r} does not name a function", target, "Write FILE.py:FUNC, such as train.py:main.")
    if path.endswith(":"):
        raise _refuse(f"{target!r} has more than one colon", target, f"Write {path.rstrip(':')}:{name}.")
    file = Path(path)
    if not file.is_file():
        raise _refuse(f"There is no file {path!r}", target, "Give the path of a Python file.")
    module = _imported(file.resolve(), target)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Function):
        return found
    if found is None or isinstance(found, type) or not callable(found) or not hasattr(found, "__qualname__"):
        own = ((key, value) for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
        there = sorted(key for key, value in own if callable(value) and not isinstance(value, type))
        raise _refuse(f"{path} has no function {name!r}", target, f"It has: {', '.join(there) or 'none'}.")
    return function_of(found, Options())


def _imported(file: Path, target: str) -> ModuleType:
    sys.path.insert(0, str(file.parent))
    folders = _package(file)
    if folders:
        sys.path.insert(0, str(file.parents[len(folders)]))
        name = ".".join([*folders, file.stem])
        _run(lambda: importlib.import_module(name), file, target)
        return sys.modules[name]
    return _alone(file, target)


def _package(file: Path) -> list[str]:
    """The names of the packages that the file is in, outermost first."""
    folder, depth = file.parent, 0
    while (folder / "__init__.py").is_file():
        folder, depth = folder.parent, depth + 1
    depth = max(depth, _climbed(file))
    names = [parent.name for parent in list(file.parents)[:depth]][::-1]
    whole = names and all(name.isidentifier() for name in [*names, file.stem])
    return names if whole and names[0] not in {*sys.stdlib_module_names, *sys.modules} else []


def _climbed(file: Path) -> int:
    try:
        return climb(compile(file.read_bytes(), str(file), "exec", dont_inherit=True))
    except (SyntaxError, ValueError):  # told when it is imported
        return 0


def _alone(file: Path, target: str) -> ModuleType:
    taken = not file.stem.isidentifier() or file.stem in sys.modules or file.stem in sys.stdlib_module_names
    name = f"{file.stem}_script" if taken else file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise _refuse(f"{file.name} is not a Python file", target, "Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if taken:
        cloudpickle.register_pickle_by_value(module)
    loader = spec.loader
    _run(lambda: loader.exec_module(module), file, target)
    return module


def _run(work: Callable[[], Any], file: Path, target: str) -> None:
    try:
        with importing(file.name):
            work()
    except Refused as error:
        if error.kind != AT_IMPORT:
            raise _failed(error, file, target) from error
        line = f" (line {trace.tb_lineno})" if (trace := _frames_of(file, error)) is not None else ""
        remedy = f"{error.remedy} `gridweave submit` calls the function itself."
        raise Refused(f"{error.message}{line}", kind="usage", field="target", value=target, remedy=remedy) from None
    except (Exception, SystemExit) as error:
        raise _failed(error, file, target) from error


def _failed(error: BaseException, file: Path, target: str) -> Refused:
    lines = traceback.format_exception(type(error), error, _frames_of(file, error))
    sys.stderr.write("".join(lines))
    words = f"{file.name} cannot be imported: {type(error).__name__}: {error}"
    return _refuse(words, target, "The traceback above is the file's.")


def _frames_of(file: Path, error: BaseException) -> Any:
    """The traceback from the user's file on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(file):
        trace = trace.tb_next
    return trace


def _refuse(message: str, value: str, remedy: str) -> Refused:
    return Refused(f"{message}.", kind="usage", field="target", value=value, remedy=remedy)
