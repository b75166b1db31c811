"""The command line, `gridweave`. Its exit codes are in exits.py."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import CycloptsError, UnknownOptionError

from gridweave.commands import exits
from gridweave.commands.app import app
from gridweave.commands.arguments import dashed
from gridweave.commands.output import Output, unheard
from gridweave.errors import GridweaveError, Refused

_HELP = "See gridweave --help."
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


def main() -> NoReturn:
    """Run the command of sys.argv and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit code."""
    output = Output(json="--json" in arguments)
    try:
        code = app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except UnknownOptionError as error:
        submitting = tuple(error.command_chain or ()) == ("submit",)
        return _told(output, dashed(error, arguments) if submitting else Refused(str(error), kind="usage", remedy=_HELP))
    except CycloptsError as error:
        return _told(output, Refused(str(error), kind="usage", remedy=_HELP))
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            with contextlib.suppress(OSError):
                output.remark(f"interrupted: {interrupt}")
        return exits.INTERRUPTED
    except BrokenPipeError:  # `gridweave ps | head -1` has seen enough
        _discard()
        return exits.OK
    except GridweaveError as error:
        return _told(output, error)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            return _told(output, unheard(error))
        if os.environ.get("GRIDWEAVE_DEBUG"):
            raise
        words = f"This is a fault of gridweave itself: {type(error).__name__}: {error}"
        return _told(output, Refused(words, kind="fault", remedy="GRIDWEAVE_DEBUG=1 shows where."))
    return code if isinstance(code, int) else exits.OK


def _told(output: Output, error: GridweaveError) -> int:
    """Its exit code, once it was told as far as somebody listens."""
    code = exits.code_of(error)
    if code in (exits.UNWRITABLE, exits.READER_GONE):
        _discard()
    with contextlib.suppress(OSError):
        output.error(error)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        return code
    _discard()
    return code


def _discard() -> None:
    """Let nothing more be written to stdout, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
