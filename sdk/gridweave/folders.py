"""What of a folder travels as `env={"working_dir": …}`: all that is below it, or a refusal that names what cannot.

Links to files are followed, as with models; a link to a folder, a link that leads nowhere, and what is no file (a pipe, a socket)
are refused: a function that finds half of its data there is worse than none. Only version control, caches and virtual environments
stay behind.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gridweave.errors import Refused
from gridweave.sources import skipped


def contents(root: Path) -> Iterator[tuple[str, Path, int]]:
    """Of each file: its path below the folder, with slashes; where it is; its size in bytes. Of a folder with nothing in it, its
    path with a slash at the end, and 0. In a fixed order. Raises Refused."""
    for parent, folders, files in os.walk(root, onerror=_unreadable):
        folders[:] = sorted(each for each in folders if not skipped(Path(parent, each)))
        for path in (Path(parent, each) for each in folders):
            if path.is_symlink():
                remedy = "Put the folder itself in its place, or remove the link. Links to files are followed."
                raise _refuse(path, f"is a link to a folder: {os.readlink(path)}", remedy)
        if not folders and not files and Path(parent) != root:
            yield f"{_entry(root, Path(parent))}/", Path(parent), 0
        for path in (Path(parent, each) for each in sorted(files)):
            yield _entry(root, path), path, _size(path)


def unreadable(error: OSError) -> Refused:
    """The refusal of what cannot be read."""
    return _refuse(Path(str(error.filename)), f"cannot be read: {error.strerror}", "Make it readable, or move it out of the folder.")


def _unreadable(error: OSError) -> None:
    raise unreadable(error) from error


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except OSError as error:
        if path.is_symlink():
            words = f"is a link that leads nowhere: to {os.readlink(path)}"
            raise _refuse(path, words, "Bring the file there, or remove the link.") from error
        raise unreadable(error) from error
    if not stat.S_ISREG(found.st_mode):
        raise _refuse(path, "is neither a file nor a folder", "Remove it, or give a folder without it.")
    return found.st_size


def _entry(root: Path, path: Path) -> str:
    entry = path.relative_to(root).as_posix()
    try:
        entry.encode()
    except UnicodeEncodeError as error:
        raise _refuse(path, "has a name that is no UTF-8", "Rename it.") from error
    return entry


def _refuse(path: Path, what: str, remedy: str) -> Refused:
    shown = str(path).encode("utf-8", "backslashreplace").decode()
    return Refused(f"working_dir: {shown} {what}", field="env.working_dir", value=shown, remedy=remedy)
