"""The command line, `gridweave`.

Exit codes: 0 ok; 1 the job failed; 2 usage, or refused by the gateway; 3 the gateway is unavailable; 4 the job was cancelled;
5 there is no such job; 70 a fault of this program; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import CycloptsError

from gridweave.commands.app import app
from gridweave.commands.output import Output
from gridweave.errors import Cancelled, GridweaveError, JobFailed, NotFound, Refused, Unavailable

INTERRUPTED = 130
FAULT = 70
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, 5),
    (Refused, 2),
    (Unavailable, 3),
    (JobFailed, 1),
    (Cancelled, 4),
    (GridweaveError, 1),
)


def main() -> NoReturn:
    """Run the command of sys.argv and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; gives its exit code."""
    output = Output(json="--json" in arguments)
    try:
        code = app(list(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        output.error(Refused(str(error), kind="usage", remedy="See gridweave --help."))
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough; nothing more can be written, also not at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except GridweaveError as error:
        output.error(error)
        return next(code for family, code in _CODES if isinstance(error, family))
    except Exception as error:
        if os.environ.get("GRIDWEAVE_DEBUG"):
            raise
        words = f"This is a fault of gridweave itself: {type(error).__name__}: {error}"
        output.error(Refused(words, kind="fault", remedy="GRIDWEAVE_DEBUG=1 shows where."))
        return FAULT
    return code if isinstance(code, int) else 0
