"""Unpacking the zips that users send: bounded, below one folder, and without following what they name outside it."""

from __future__ import annotations

import os
import stat
import zipfile

_MOST_BYTES = 8 << 30
_MOST_FILES = 200_000


class BadArchive(ValueError):
    """The zip can't be used; the text says why."""


def unpack(path: str, target: str, what: str) -> None:
    """Extract the zip at `path` below `target`; execute bits are kept. Raises BadArchive."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_FILES or sum(member.file_size for member in members) > _MOST_BYTES:
                raise BadArchive(f"{what}: more than {_MOST_FILES} files or {_MOST_BYTES >> 30} GiB when unpacked")
            for member in members:
                _extract(archive, member, target, what)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError) as error:
        raise BadArchive(f"{what}: not a usable zip: {error}") from error


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: str, what: str) -> None:
    name = member.filename
    if name.startswith("/") or "\0" in name or ".." in name.split("/"):
        raise BadArchive(f"{what}: {name!r} would be written outside its folder")
    extracted = archive.extract(member, target)
    mode = member.external_attr >> 16
    if mode and not stat.S_ISLNK(mode) and os.path.isfile(extracted):
        os.chmod(extracted, 0o600 | (mode & 0o755))
