"""What a node does with one job, in a process of its own: reads the payloads, runs the function, writes the outcome.

It has cloudpickle and nothing else that the client has: the gridweave package, httpx and rich cannot be imported unless they came along.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import pickle
import sys
import traceback
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

for absent in ("httpx", "rich", "cyclopts"):
    sys.modules[absent] = None  # type: ignore[assignment]  # that is how Python marks a module that cannot be imported
sys.path[:] = [each for each in sys.path if not Path(each, "gridweave").is_dir()]  # where it is installed from a checkout


def described(error: BaseException, link: str | None = None) -> dict[str, Any]:
    try:
        dumped = cloudpickle.dumps(error)
    except Exception:
        dumped = None
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__, chain=link is None))
    facts = {"exception": dumped, "type": type(error).__name__, "module": type(error).__module__, "message": str(error), "traceback": text}
    return facts if link is None else {**facts, "link": link}


def chain(raised: BaseException) -> Iterator[dict[str, Any]]:
    error: BaseException | None = raised
    while error is not None:
        link = "cause" if error.__cause__ is not None else "context"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if error is not None:
            yield described(error, link)


def run(folder: Path) -> Any:
    if (folder / "code").exists():
        zipfile.ZipFile(folder / "code").extractall(folder / "src")
        sys.path.insert(0, str(folder / "src"))
    if (folder / "working_dir").exists():
        zipfile.ZipFile(folder / "working_dir").extractall(folder / "work")
        os.chdir(folder / "work")
    function = pickle.loads((folder / "function").read_bytes())  # noqa: S301 - that is a node's work
    args, kwargs = pickle.loads((folder / "args").read_bytes())  # noqa: S301 - likewise
    value = function(*args, **kwargs)
    if inspect.iscoroutine(value):
        value = asyncio.run(value)
    return list(value) if inspect.isgenerator(value) else value


def main() -> None:
    folder = Path(sys.argv[1])
    try:
        value, raised = cloudpickle.dumps(run(folder)), False
    except Exception as error:
        traceback.print_exception(error)
        value, raised = pickle.dumps({"gridweave": 1, **described(error), "chain": list(chain(error))}), True
    sys.stdout.flush()
    (folder / "result.part").write_bytes(value)
    os.rename(folder / "result.part", folder / ("raised" if raised else "returned"))


main()
