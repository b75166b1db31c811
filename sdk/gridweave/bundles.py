"""Packs files into zips: the user's modules, and the folder of `env={"working_dir": …}`.

Equal files give equal bytes, so that the second upload of unchanged code is none. What is too large is refused, naming the
largest entries; a data file beyond DATA_LIMIT inside a package stays behind, with a warning.
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from gridweave.errors import Refused
from gridweave.folders import contents, unreadable
from gridweave.payloads import LIMIT, Payload, TooLargeError
from gridweave.sources import local_files

CODE_LIMIT = 64 * 1024 * 1024  # bytes of all modules together, before compression
DATA_LIMIT = 10 * 1024 * 1024  # bytes of one data file inside a package
_PIECE = 1024 * 1024
_EPOCH = (1980, 1, 1, 0, 0, 0)
_EXTENSIONS = (".so", ".pyd")


def code_bundle(names: frozenset[str]) -> Payload | None:
    """The user's own modules among those names, and all that these need; None if there are none. Raises Refused."""
    files = _portable(local_files(names))
    sizes = {entry: path.stat().st_size for entry, path in files.items()}
    for entry in [each for each, size in sizes.items() if size > DATA_LIMIT and not each.endswith((".py", *_EXTENSIONS))]:
        warnings.warn(
            f"{entry} ({_mib(sizes[entry])}) stays behind: data files over {_mib(DATA_LIMIT)} are not sent with code", stacklevel=2
        )
        del files[entry], sizes[entry]
    if sum(sizes.values()) > CODE_LIMIT:
        raise _refuse("The modules beside the function", sizes, CODE_LIMIT, "Keep data out of packages, or put it into env working_dir.")
    return pack(files) if files else None


def folder_bundle(folder: str) -> Payload:
    """A folder for `working_dir`. Raises Refused if it is none, too large, or holds what cannot travel."""
    root = Path(folder).expanduser()
    if not folder or not root.is_dir():
        remedy = "Give the path of an existing folder."
        raise Refused(f"working_dir {folder!r} is not a folder", field="env.working_dir", value=str(folder), remedy=remedy)
    files, sizes = dict[str, Path](), dict[str, int]()
    for entry, path, size in contents(root):
        files[entry], sizes[entry] = path, size
    try:
        return pack(files)
    except OSError as error:
        if error.filename is None:
            raise
        raise unreadable(error) from error
    except TooLargeError:
        raise _refuse(f"working_dir {folder!r}", sizes, LIMIT, "Leave large data out and read it inside the function.") from None


def pack(files: Mapping[str, Path]) -> Payload:
    """A zip of those files, and of empty folders, whose names end with a slash. Raises TooLargeError."""
    payload = Payload()
    try:
        with zipfile.ZipFile(payload, "w") as archive:
            for entry in sorted(files):
                info = zipfile.ZipInfo(entry, _EPOCH)
                if info.is_dir():
                    info.external_attr = 0o40755 << 16
                    archive.writestr(info, b"")
                    continue
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = (0o100755 if files[entry].stat().st_mode & 0o100 else 0o100644) << 16
                with archive.open(info, "w") as target:
                    for piece in _pieces(files[entry]):
                        target.write(piece)
    except BaseException:
        payload.close()
        raise
    return payload


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as source:
            while piece := source.read(_PIECE):
                yield piece
    except OSError as error:
        error.filename = error.filename or str(path)  # that it is this file, which reading alone does not say
        raise


def _portable(files: dict[str, Path]) -> dict[str, Path]:
    """The files without extension modules of other systems. Raises Refused if there is none for Linux beside one."""
    foreign = {entry for entry in files if entry.endswith(_EXTENSIONS) and not _for_linux(entry)}
    native = {_stem(entry) for entry in files if entry.endswith(_EXTENSIONS) and entry not in foreign}
    for entry in sorted(foreign):
        if _stem(entry) not in native:
            raise Refused(
                f"{entry} is a compiled extension module for another system than the Linux of the nodes",
                field="code",
                value=entry,
                remedy='Build it into a wheel that env={"pip": [...]} can install there, or send its Python sources.',
            )
    return {entry: path for entry, path in files.items() if entry not in foreign}


def _for_linux(entry: str) -> bool:
    return entry.endswith(".so") and "darwin" not in entry and ("linux" in entry or sys.platform == "linux")


def _stem(entry: str) -> str:
    folder, _, name = entry.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


def _mib(size: int) -> str:
    return f"{size / 1024 / 1024:.1f} MiB"


def _refuse(what: str, sizes: Mapping[str, int], limit: int, remedy: str) -> Refused:
    largest = sorted(sizes, key=lambda each: -sizes[each])[:5]
    listed = ", ".join(f"{each} ({_mib(sizes[each])})" for each in largest)
    total = _mib(sum(sizes.values()))
    return Refused(f"{what}: {total}, more than the {_mib(limit)} that can be sent. Largest: {listed}.", field="code", remedy=remedy)
