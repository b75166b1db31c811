"""Packs files into zips: the user's modules, and the folder of `env={"working_dir": …}`.

Equal files give equal bytes, so that the second upload of unchanged code is none. What is too large is refused, naming the
largest entries; a data file beyond DATA_LIMIT inside a package stays behind, with a warning. The sizes of a folder's files decide
where they can; else packing tells, which stops at the limit.
"""

from __future__ import annotations

import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from gridweave.errors import Refused
from gridweave.files import pieces
from gridweave.folders import contents, unreadable
from gridweave.payloads import LIMIT, Payload, Progress, TooLargeError
from gridweave.sources import local_files

CODE_LIMIT = 64 * 1024 * 1024  # bytes of all modules together, before compression
DATA_LIMIT = 10 * 1024 * 1024  # bytes of one data file inside a package
UNPACKED_LIMIT = 8 << 30  # bytes of a folder before compression, and
MOST_FILES = 200_000  # files and folders in it, that a node unpacks
_PACKED = (".7z", ".bz2", ".gz", ".tgz", ".whl", ".xz", ".zip", ".zst", ".jpeg", ".jpg", ".webp", ".m4a", ".mp3", ".mkv", ".mp4", ".webm")
_SENT = "can be sent when packed"
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
        remedy = "Keep data out of packages, or put it into env working_dir."
        raise _too_large("The modules beside the function: ", sizes, CODE_LIMIT, "can be sent", "code", remedy)
    return pack(files) if files else None


def folder_bundle(folder: str, progress: Progress | None = None) -> Payload:
    """A folder for `working_dir`. Raises Refused if it is none, too large, or holds what cannot travel.

    progress: told how many of its bytes are packed, and of how many.
    """
    root = Path(folder).expanduser()
    if not folder or not root.is_dir():
        remedy = "Give the path of an existing folder."
        raise Refused(f"working_dir {folder!r} is not a folder", field="env.working_dir", value=str(folder), remedy=remedy)
    files, sizes = _looked_through(root, f"working_dir {folder!r}")
    total = sum(sizes.values())
    try:
        return pack(files, None if progress is None else lambda so_far: progress(min(so_far, total), total))
    except OSError as error:
        if error.filename is None:
            raise
        raise unreadable(error) from error
    except TooLargeError:
        raise _folder_too_large(f"working_dir {folder!r}: ", sizes, LIMIT, _SENT) from None


def _looked_through(root: Path, what: str) -> tuple[dict[str, Path], dict[str, int]]:
    """Its files, and their sizes. Raises Refused, before anything is read, as soon as it is sure to be too large."""
    files, sizes = dict[str, Path](), dict[str, int]()
    total = packed = 0
    for entry, path, size in contents(root):
        files[entry], sizes[entry] = path, size
        total, packed = total + size, packed + (size if path.suffix.lower() in _PACKED else 0)
        if total > UNPACKED_LIMIT:
            raise _folder_too_large(f"{what}: at least ", sizes, UNPACKED_LIMIT, "a node unpacks")
        if packed > LIMIT:
            raise _folder_too_large(f"{what}: at least ", sizes, LIMIT, _SENT)
        if len(files) > MOST_FILES:
            words = f"{what} has more than the {MOST_FILES:,} files and folders that a node unpacks"
            raise Refused(words, field="env.working_dir", value=str(root), remedy="Give a smaller folder, or pack them into one file.")
    return files, sizes


def pack(files: Mapping[str, Path], progress: Callable[[int], None] | None = None) -> Payload:
    """A zip of those files, and of empty folders, whose names end with a slash. Raises TooLargeError.

    progress: told how many bytes of them it has, at the start and whenever it has got some more.
    """
    payload, so_far = Payload(), 0
    try:
        if progress is not None:
            progress(so_far)
        with zipfile.ZipFile(payload, "w") as archive:
            for entry in sorted(files):
                info = zipfile.ZipInfo(entry, _EPOCH)
                if info.is_dir():
                    info.external_attr = 0o40755 << 16
                    archive.writestr(info, b"")
                    continue
                info.compress_type = zipfile.ZIP_DEFLATED
                found = files[entry].stat()
                info.external_attr = (0o100755 if found.st_mode & 0o100 else 0o100644) << 16
                info.file_size = found.st_size  # beyond 2 GiB it needs a larger header
                with archive.open(info, "w") as target:
                    for piece in pieces(files[entry], _PIECE):
                        target.write(piece)
                        so_far += len(piece)
                        if progress is not None:
                            progress(so_far)
    except BaseException:
        payload.close()
        raise
    return payload


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


def _folder_too_large(what: str, sizes: Mapping[str, int], limit: int, by: str) -> Refused:
    return _too_large(what, sizes, limit, by, "env.working_dir", "Leave large data out and read it inside the function.")


def _too_large(what: str, sizes: Mapping[str, int], limit: int, by: str, field: str, remedy: str) -> Refused:
    largest = sorted(sizes, key=lambda each: -sizes[each])[:5]
    listed = ", ".join(f"{each} ({_mib(sizes[each])})" for each in largest)
    total = _mib(sum(sizes.values()))
    return Refused(f"{what}{total}, more than the {_mib(limit)} that {by}. Largest: {listed}.", field=field, remedy=remedy)
