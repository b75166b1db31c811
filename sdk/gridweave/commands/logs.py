"""`logs`: what a job printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

from cyclopts import Parameter

from gridweave.client import Client
from gridweave.commands.ids import JobId, full_id
from gridweave.commands.numbers import WHOLE
from gridweave.commands.options import COMMON, Common
from gridweave.errors import Refused
from gridweave.notices import Notices
from gridweave.streams import LogPiece, State


def logs(
    id: JobId,
    /,
    *,
    follow: Annotated[bool, Parameter(name=("--follow", "-f"))] = False,
    tail: Annotated[int | None, WHOLE, Parameter(name=("--tail", "-n"))] = None,
    common: Common = COMMON,
) -> int:
    """Print a job's log, byte for byte.

    Parameters
    ----------
    follow
        Go on until the job has ended. Ctrl-C stops the command, not the job.
    tail
        Only the last lines, that many; with --follow, and what comes after them.
    """
    if tail is not None and tail < 0:
        raise Refused(f"--tail cannot be {tail}", kind="usage", field="tail", value=str(tail), remedy="Give a number of lines.")
    output, client = common.output(), common.client(retry_for=60 if follow else 5)
    ident, said = full_id(client, id), False
    for piece in _pieces(client, ident, follow, tail):
        said = True
        if output.json:
            output.emit({"id": ident, "text": piece.decode("utf-8", "replace")})
        else:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    if output.json and not said:
        output.emit({"id": ident, "text": ""})
    return 0


def _pieces(client: Client, ident: str, follow: bool, tail: int | None) -> Iterator[bytes]:
    if tail is None:
        yield from _followed(client, ident, 0) if follow else client.log(ident)
        return
    lines, size = _last_lines(client.log(ident), tail)
    if lines:
        yield lines
    if follow:
        yield from _followed(client, ident, size)


def _followed(client: Client, ident: str, offset: int) -> Iterator[bytes]:
    """What comes after that many bytes. While the job waits, that is said on stderr."""
    with Notices(ident) as notices:
        for happened in client.follow(ident, offset):
            if isinstance(happened, LogPiece):
                yield happened.data
            elif isinstance(happened, State):
                notices.state(happened)


def _last_lines(pieces: Iterable[bytes], count: int) -> tuple[bytes, int]:
    """The last lines, and the size of the whole."""
    kept, size = b"", 0
    for piece in pieces:
        size += len(piece)
        kept = b"".join((kept + piece).splitlines(keepends=True)[-count:]) if count else b""
    return kept, size
