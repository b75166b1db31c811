"""A file of the user's, read in pieces: what is large is never in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def pieces(path: Path, size: int) -> Iterator[bytes]:
    """The file, up to so many bytes at a time. An OSError says that it is this file, which reading alone does not."""
    try:
        with path.open("rb") as source:
            while piece := source.read(size):
                yield piece
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
